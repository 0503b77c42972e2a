// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// watching runs a watch whose output the test reads line by line.
type watching struct {
	t     *testing.T
	lines chan string
	end   context.CancelFunc
	exit  chan int
	errs  *strings.Builder
}

func (f *fixture) watching(t *testing.T, args ...string) *watching {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	run := &watching{t: t, lines: make(chan string, 1000), end: cancel, exit: make(chan int, 1), errs: &strings.Builder{}}
	a := f.app(w, run.errs)
	go func() {
		run.exit <- a.run(ctx, args)
		w.Close()
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(r)
		for s.Scan() {
			run.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { cancel(); <-read })
	return run
}

// line returns the next line that contains some text.
func (w *watching) line(text string) string {
	w.t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	var seen []string
	for {
		select {
		case l := <-w.lines:
			if strings.Contains(l, text) {
				return l
			}
			seen = append(seen, l)
		case <-limit.C:
			w.t.Fatalf("no line with %q; seen %q", text, seen)
		}
	}
}

// Each event is one line of JSON that a script can read.
func TestWatchLines(t *testing.T) {
	f := newFixture(t)
	f.fill()
	w := f.watching(t, "service", "watch", "web", "-o", "json")
	w.line(`"complete"`)
	f.SetHealth("", "web", "docs", unhealthy("BadStatus", 503))
	var event watchEvent
	if err := json.Unmarshal([]byte(w.line(`"service"`)), &event); err != nil {
		t.Fatal(err)
	}
	m := &openshellv1.ServiceEndpointResponse{}
	if err := protojson.Unmarshal(event.Service, m); err != nil || sandbox.HealthOf(m).State != sandbox.HealthUnhealthy || event.SandboxPhase != "SANDBOX_PHASE_READY" {
		t.Errorf("%+v, %v", event, err)
	}
	stopping := status.Error(codes.Unavailable, "stopping\x1b")
	f.Fail("WatchServices", stopping)
	f.BreakWatches(stopping)
	if l := w.line(`"disconnected"`); !strings.Contains(l, "stopping") {
		t.Error(l)
	}
	if _, err := f.DeleteService(t.Context(), &openshellv1.DeleteServiceRequest{Sandbox: "web", Name: "docs"}); err != nil {
		t.Fatal(err)
	}
	f.Fail("WatchServices", nil)
	w.line(`"connected"`)
	if l := w.line(`"removed"`); !strings.Contains(l, `"docs"`) {
		t.Error(l)
	}
	w.end()
	if code := <-w.exit; code != exitDone || w.errs.String() != "" {
		t.Errorf("an interrupted watch: exit %d, %s", code, w.errs)
	}
}

// A table that is written over: every page begins where the one before began.
func TestWatchTable(t *testing.T) {
	f := newFixture(t)
	f.fill()
	f.tty, f.width, f.height = true, 100, 30
	w := f.watching(t, "service", "watch", "api")
	first := w.line("2 services in workspace default: 2 unhealthy")
	if strings.Contains(first, "A2 services") {
		t.Errorf("the first page writes over something: %q", first)
	}
	w.line("admin")
	f.SetHealth("", "api", "admin", health(2, "OK", 200, 0))
	again := w.line("1 healthy, 1 unhealthy")
	// The summary, the heads and two services are on the terminal, and the
	// cursor below.
	if up := "\x1b[" + strconv.Itoa(4) + "A"; !strings.Contains(again, up) {
		t.Errorf("a page begins with %q, want %q", again, up)
	}
	if l := w.line("admin"); !strings.Contains(l, "\x1b[32mReady\x1b[0m") || !strings.HasSuffix(l, "\x1b[K") {
		t.Errorf("%q", l)
	}
	stopping := status.Error(codes.Unavailable, "stopping")
	f.Fail("WatchServices", stopping)
	f.BreakWatches(stopping)
	w.line("No connection to the gateway, trying again: stopping")
	f.Fail("WatchServices", nil)
	// The remark is written over.
	for !strings.Contains(w.line("2 services"), "\x1b[5A") {
	}
	w.end()
	if code := <-w.exit; code != exitDone {
		t.Errorf("exit %d: %s", code, w.errs)
	}
}

func TestWatchEnds(t *testing.T) {
	f := newFixture(t)
	f.fill()
	begin := time.Now()
	if got := f.run(t, "service", "watch", "-w", "empty", "-o", "json", "--timeout", "1s"); got.code != exitDone || !strings.Contains(got.out, "complete") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	for code, want := range map[codes.Code]string{
		codes.Unavailable: "no connection to the gateway", codes.ResourceExhausted: "too many", codes.Unimplemented: "cannot do this (watch services)",
	} {
		f.Fail("WatchServices", status.Error(code, "too many"))
		if got := f.run(t, "service", "watch"); got.code != exitFailed || !strings.Contains(got.err, want) || got.out != "" {
			t.Errorf("%v: exit %d: %s%s", code, got.code, got.out, got.err)
		}
	}
	f.Fail("WatchServices", nil)
	for _, tty := range []bool{false, true} {
		f.tty = tty
		var stderr strings.Builder
		if code := f.app(brokenWriter{}, &stderr).run(t.Context(), []string{"service", "watch"}); code != exitFailed || !strings.Contains(stderr.String(), errBroken.Error()) {
			t.Errorf("a broken pipe: exit %d: %s", code, stderr.String())
		}
	}
}

// The page of a watch, whatever it knows.
func TestDrawWatch(t *testing.T) {
	service := func(name string, state openshellv1.ServiceHealthState) sandbox.WatchedService {
		return sandbox.WatchedService{
			Service: &openshellv1.ServiceEndpointResponse{
				Endpoint: endpoint("default", "web", name, 80, ""), Health: &openshellv1.ServiceHealth{State: state, Reason: "Refused"},
			},
			Phase: openshellv1.SandboxPhase_SANDBOX_PHASE_READY, Checked: today.Add(-3 * time.Second),
		}
	}
	many := []sandbox.WatchedService{service("a", 2), service("b", 3), service("c", 1), service("d", 0)}
	for name, tt := range map[string]struct {
		w     watched
		width int
		want  string
	}{
		"nothing":      {watched{connected: true, where: " in workspace blue"}, 80, "no services in workspace blue\n"},
		"disconnected": {watched{lost: errors.New("it is gone")}, 80, "no services\nNo connection to the gateway, trying again: it is gone\n"},
		"clipped": {
			watched{lost: errors.New("it is gone"), services: many[:1]},
			20,
			"1 service: 1 healthy\nSANDBOX  SERVICE  H…\nweb      a        R…\nNo connection to th…\n",
		},
		"more than there is room for": {
			watched{connected: true, services: many, rows: 2},
			60,
			"4 services: 1 healthy, 1 unhealthy, 2 unknown\n" +
				"SANDBOX  SERVICE  PORT  HEALTH        REASON   AGE  PHASE\n" +
				"web      a        80    Responsive    Refused  3s   Ready\n" +
				"web      b        80    Unresponsive  Refused  3s   Ready\n" +
				"… and 2 more: make the window higher, or name a sandbox\n",
		},
	} {
		p := &page{width: tt.width, clip: true}
		drawWatch(p, tt.w, today)
		if got := p.out.String(); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, tt.want)
		}
	}
}
