// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// event is a line of a watch.
type event struct {
	Event   string
	Service json.RawMessage
	Error   string
	words   string // STATE/Reason, or the event
	at      time.Time
}

// watching is a `sandboxctl service watch` whose lines are read.
type watching struct {
	b      *bed
	cmd    *exec.Cmd
	events chan event
}

func (b *bed) watch(args ...string) *watching {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(b.Bin, "sandboxctl"), append([]string{"service", "watch"}, args...)...)
	cmd.Env = append(os.Environ(), "SANDBOX_GATEWAY_STATE_DIR="+b.State)
	cmd.Stderr = b.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	w := &watching{b: b, cmd: cmd, events: make(chan event, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			e := event{at: time.Now()}
			if err := json.Unmarshal(s.Bytes(), &e); err != nil {
				b.t.Errorf("a line of the watch: %v: %s", err, s.Bytes())
				continue
			}
			e.words = e.Event
			if e.Event == "service" {
				m := &openshellv1.ServiceEndpointResponse{}
				if err := protojson.Unmarshal(e.Service, m); err != nil {
					b.t.Errorf("a service of the watch: %v", err)
				}
				e.words = kit.Health(m.GetHealth())
			}
			w.events <- e
		}
	}()
	b.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		<-read
		if err := cmd.Wait(); err != nil {
			b.t.Errorf("an interrupted watch ends with %v", err)
		}
	})
	return w
}

// until returns the next event of which the words begin so.
func (w *watching) until(limit time.Duration, words string) event {
	w.b.t.Helper()
	over := time.NewTimer(limit)
	defer over.Stop()
	var seen []string
	for {
		select {
		case e := <-w.events:
			if strings.HasPrefix(e.words, words) {
				return e
			}
			seen = append(seen, e.words)
		case <-over.C:
			w.b.t.Fatalf("the watch did not say %q within %v, but %q", words, limit, seen)
		}
	}
}

// waits polls the gateway's metrics until so many waits are under way.
func (b *bed) waits(n int) {
	b.t.Helper()
	c, err := b.Client()
	if err != nil {
		b.t.Fatal(err)
	}
	client := &http.Client{Timeout: 5 * time.Second}
	want := fmt.Sprintf("\nsandbox_gateway_waits %d\n", n)
	err = kit.Until(b.ctx, 10*time.Second, "a wait to be under way", func() (bool, string) {
		resp, err := client.Get(c.Ops + "/metrics")
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return strings.Contains(string(text), want), fmt.Sprint(err)
	})
	client.CloseIdleConnections()
	if err != nil {
		b.t.Fatal(err)
	}
}

// A server that takes its time: the wait ends when it is ready, the watch has
// said what went before, and so does the history.
func TestWaitWatchHistory(t *testing.T) {
	b := newBed(t)
	b.gateway()
	ready := filepath.Join(b.dir, "ready")
	if err := os.Mkdir(filepath.Join(b.dir, "www"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.cli("sandbox", "create", "web", "--driver", "local", "--expose", "8080", "--", "sh", "-c",
		"until [ -e "+ready+" ]; do sleep 0.05; done; exec python3 -m http.server 8080 --directory "+filepath.Join(b.dir, "www"))
	w := b.watch("web")
	w.until(10*time.Second, "UNKNOWN/Refused") // the agent has tried: nothing listens yet
	r := b.CLI(b.ctx, "service", "wait", "web", "--timeout", "300ms")
	if r.Code != 4 || !strings.Contains(r.Stderr, "was not HEALTHY within 3") {
		t.Errorf("a wait in vain: exit %d: %s", r.Code, r.Stderr)
	}
	waited := make(chan kit.Result, 1)
	go func() { waited <- b.CLI(b.ctx, "service", "wait", "web", "--timeout", "30s") }()
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.until(10*time.Second, "HEALTHY")
	if r := <-waited; r.Code != 0 || !strings.Contains(r.Stdout, "is Responsive after") {
		t.Errorf("the wait: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	h := &sandboxv1.ListServiceTransitionsResponse{}
	if err := protojson.Unmarshal([]byte(b.cli("service", "history", "web", "-o", "json")), h); err != nil {
		t.Fatal(err)
	}
	first, last := h.GetTransitions()[0], h.GetTransitions()[len(h.GetTransitions())-1]
	if first.GetFromState() != 0 || last.GetToReason() != "OK" || last.GetFromReason() != "Refused" || last.GetCause() != sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT {
		t.Errorf("history: %v", h.GetTransitions())
	}
	if out := b.cli("service", "history", "web"); !strings.Contains(out, "█") || !strings.Contains(out, "Responsive") {
		t.Errorf("history:\n%s", out)
	}
	// Once it is stopped nobody waits any longer.
	go func() { waited <- b.CLI(b.ctx, "service", "wait", "web", "--for", "unhealthy", "--timeout", "30s") }()
	b.waits(1)
	b.cli("sandbox", "stop", "web")
	w.until(5*time.Second, "UNKNOWN/SandboxStopped")
	if r := <-waited; r.Code != 1 || !strings.Contains(r.Stderr, "the sandbox is stopped") {
		t.Errorf("a wait for a stopped sandbox: exit %d: %s", r.Code, r.Stderr)
	}
	b.cli("sandbox", "delete", "web")
	w.until(5*time.Second, "removed")
}

// An agent killed with -9: the watch says so within a second.
func TestWatchOfAKilledAgent(t *testing.T) {
	b := newBed(t)
	b.gateway()
	b.cli("sandbox", "create", "web", "--expose", "8080")
	agent := b.agent("web")
	serve(t, "127.0.0.1:8080")
	w := b.watch("web", "-o", "json")
	w.until(15*time.Second, "HEALTHY")
	killed := time.Now()
	agent.Kill()
	if after := w.until(5*time.Second, "UNKNOWN/SupervisorDisconnected").at.Sub(killed); after > time.Second {
		t.Errorf("it said so after %v", after)
	}
	b.agent("web")
	w.until(5*time.Second, "HEALTHY")
}

// A gateway that stops and comes back: the watch and the wait go on.
func TestWatchOutlivesTheGateway(t *testing.T) {
	b := newBed(t)
	gateway := b.gateway()
	b.cli("sandbox", "create", "web", "--expose", "8080")
	b.agent("web")
	w := b.watch()
	w.until(15*time.Second, "UNKNOWN/Refused")
	waited := make(chan kit.Result, 1)
	go func() { waited <- b.CLI(b.ctx, "service", "wait", "web", "--timeout", "60s") }()
	b.waits(1)
	if code, err := gateway.Stop(); code != 0 || err != nil {
		t.Fatalf("the gateway ended with %d, %v", code, err)
	}
	if e := w.until(5*time.Second, "disconnected"); !strings.Contains(e.Error, "stopping") {
		t.Errorf("the watch was ended with %q", e.Error)
	}
	b.gateway()
	w.until(30*time.Second, "connected")
	serve(t, "127.0.0.1:8080")
	w.until(30*time.Second, "HEALTHY")
	if r := <-waited; r.Code != 0 {
		t.Errorf("the wait: exit %d: %s", r.Code, r.Stderr)
	}
}

// A sandbox that is created with --wait is ready when the command ends; one
// whose main process ends is not, and the command says with which status.
func TestCreateAndWait(t *testing.T) {
	b := newBed(t)
	b.gateway()
	b.cli("sandbox", "create", "web", "--driver", "local", "--wait", "--expose", "8080", "--", "python3", "-m", "http.server", "8080", "--directory", b.dir)
	if got := b.health("web", ""); got != "HEALTHY" {
		t.Errorf("web is %s", got)
	}
	b.cli("sandbox", "create", "idle", "--driver", "local", "--wait", "--", "sleep", "600")
	r := b.CLI(b.ctx, "sandbox", "create", "job", "--driver", "local", "--wait", "--expose", "8081", "--", "sh", "-c", "sleep 0.3; exit 7")
	if r.Code != 1 || !strings.Contains(r.Stderr, "the main process has ended with status 7") {
		t.Errorf("job: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}
