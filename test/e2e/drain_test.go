// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// drainBudget is what a stop may take: a grace of 3 s, the graceful stop of 30 s,
// and a margin.
const drainBudget = 37 * time.Second

// T25: with one upgraded connection, one event stream, one idle connection,
// one watch and one raw relay open, a gateway that is told to stop answers on
// during the grace and exits with 0 inside the drain budget.
func TestT25Drain(t *testing.T) {
	b := newBed(t)
	p := b.gateway("--drain-grace", "3s")
	target := streams(t)
	_, port, _ := net.SplitHostPort(target)
	b.cli("sandbox", "create", "web", "--expose", port)
	b.agent("web")
	b.until(10*time.Second, "web", "", "HEALTHY")
	c, err := b.Client()
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(c.HTTP, "http://")
	host := "default--web.sandbox.localhost"

	events := open(t, addr, "GET /events HTTP/1.1\r\nHost: "+host+"\r\n\r\n", "data: ")
	upgraded := open(t, addr, "GET /upgrade HTTP/1.1\r\nHost: "+host+"\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", "101 ")
	idle := open(t, addr, "GET /livez HTTP/1.1\r\nHost: "+addr+"\r\n\r\n", "200 OK")
	relay := open(t, addr, "GET /slow HTTP/1.1\r\nHost: "+host+"\r\n\r\n", "") // no answer, ever
	watch := exec.Command(filepath.Join(b.Bin, "sandboxctl"), "--state-dir", b.State, "service", "watch", "-o", "json")
	out, err := watch.StdoutPipe()
	if err == nil {
		err = watch.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { watch.Process.Kill(); watch.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the watch says nothing: %v", err)
	}

	began := time.Now()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = kit.Until(t.Context(), 2500*time.Millisecond, "/readyz to say no while the API serves on", func() (bool, string) {
		status := statusOf(c.HTTP + "/readyz")
		return status == http.StatusServiceUnavailable && b.CLI(t.Context(), "service", "get", "web").Code == 0, fmt.Sprint(status)
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case <-p.Done():
	case <-time.After(drainBudget):
		t.Fatalf("still running %v after SIGTERM", drainBudget)
	}
	t.Logf("stopped %v after SIGTERM", time.Since(began).Round(10*time.Millisecond))
	if code, _ := p.Stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for name, conn := range map[string]net.Conn{"event stream": events, "upgraded": upgraded, "idle": idle, "relay": relay} {
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
			t.Errorf("%s: the connection outlived the gateway", name)
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// statusOf returns the status of a GET, or 0.
func statusOf(url string) int {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// open sends a request and reads until what it waits for has come.
func open(t *testing.T, addr, request, want string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	var got strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(got.String(), want) {
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("%.20q: %v after %q", request, err, got.String())
		}
	}
	return conn
}

// streams serves /events (for ever), /upgrade (an echo), /slow (never) and an
// answer to everything else.
func streams(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; r.Context().Err() == nil; n++ {
			fmt.Fprintf(w, "data: %d\n\n", n)
			http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
			}
		}
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, rw)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}
