// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package obs

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestOpsHandlerServesMetricsUntilStopped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- ServeHTTP(ctx, l, OpsHandler(NewRegistry("sandbox_test"), http.NotFoundHandler()), testkit.Logger(t))
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"/metrics":      "sandbox_test_build_info{version=",
		"/debug/pprof/": "goroutine",
		"/other":        "404",
	} {
		resp, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("GET %s: no %q in %.200q", path, want, body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A connection that was accepted before the end, and asks after it, is answered;
// net/http alone would close it.
func TestServeHTTPAnswersWhomItHasAccepted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	watched := &closeWatcher{Listener: l, accepted: make(chan struct{}, 1), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ServeHTTP(ctx, watched, http.NotFoundHandler(), testkit.Logger(t)) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-watched.accepted
	cancel()
	<-watched.closed
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 404") {
		t.Errorf("answered %q, %v", answer, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// closeWatcher tells what becomes of a listener.
type closeWatcher struct {
	net.Listener
	accepted, closed chan struct{}
	once             sync.Once
}

func (w *closeWatcher) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err == nil {
		w.accepted <- struct{}{}
	}
	return c, err
}

func (w *closeWatcher) Close() error {
	err := w.Listener.Close()
	w.once.Do(func() { close(w.closed) })
	return err
}
