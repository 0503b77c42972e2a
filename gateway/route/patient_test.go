// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// pipes is a listener of connections that are handed to it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) connect() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// serve serves a handler on a listener of pipes until the test ends.
func serve(t *testing.T, h http.Handler) pipes {
	p := pipes{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(p) }()
	return p
}

// still has one service, and no time but a bubble's.
type still struct{ app pipes }

func (still) Endpoint(_ context.Context, n Name) (Endpoint, error) {
	return Endpoint{SandboxID: "id", Service: n.Service, Port: 80, Open: true}, nil
}

func (s still) OpenRelay(context.Context, string, string) (mux.Duplex, error) {
	return closeOnly{s.app.connect()}, nil
}

// A service may be silent for as long as it likes, before it answers and before
// the answer's end, also where the end is nothing but a few bytes of HTTP.
func TestSilenceIsNoEnd(t *testing.T) {
	const silence = time.Hour
	testkit.Bubble(t, func(t *testing.T) {
		quiet := func() { <-time.After(silence) }
		app := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/events":
				_, _ = io.WriteString(w, "data: 1\n\n")
				_ = http.NewResponseController(w).Flush()
				quiet()
			case "/trailer":
				w.Header().Set("Trailer", "Sum")
				_, _ = io.WriteString(w, "data: 1\n\n")
				_ = http.NewResponseController(w).Flush()
				quiet()
				w.Header().Set("Sum", "1")
			case "/early":
				quiet()
				w.WriteHeader(http.StatusEarlyHints)
				quiet()
			case "/empty":
				quiet()
				w.WriteHeader(http.StatusNoContent)
			}
		}))
		s := still{app}
		router := New(Config{
			Domain: domain, Directory: s, Relays: s, Logger: testkit.Logger(t),
			IsAdmin: func(string) bool { return false },
		})
		client := serve(t, router).connect()
		from := bufio.NewReader(client)
		for _, ask := range []struct {
			path, body string
			status     int
		}{
			{"/events", "data: 1\n\n", 200},
			{"/empty", "", 204},
			{"/trailer", "data: 1\n\n", 200},
			{"/early", "", 200},
			{"/empty", "", 204},
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+ask.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Write(client); err != nil {
				t.Fatalf("%s: %v", ask.path, err)
			}
			resp, err := http.ReadResponse(from, r)
			for err == nil && resp.StatusCode < 200 {
				resp, err = http.ReadResponse(from, r)
			}
			if err != nil {
				t.Fatalf("%s: %v", ask.path, err)
			}
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != ask.status || string(body) != ask.body || err != nil {
				t.Errorf("%s: %d %q, %v", ask.path, resp.StatusCode, body, err)
			}
			_ = resp.Body.Close()
		}
		_ = client.Close()
		testkit.Wait()
		router.Close()
	})
}

// The gateway does not guess what an answer is, as a server does whose answer's
// head and body are there together.
func TestNoContentType(t *testing.T) {
	router := &Router{patience: mux.RelayPatience()}
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w := &writer{ResponseWriter: rw, control: http.NewResponseController(rw), router: router}
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "<html></html>")
	}))
	defer front.Close()
	resp, err := front.Client().Get(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body := text(t, resp.Body); body != "<html></html>" || len(resp.Header["Content-Type"]) > 0 {
		t.Errorf("%v %q", resp.Header, body)
	}
}
