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
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// world is a Router on a real listener, with one sandbox, default--web, whose
// agent relays to one application.
type world struct {
	t      testing.TB
	router *Router
	addr   string // of the listener
	client *http.Client
	app    *httptest.Server
	stop   func() // the listener, the session, the Router

	mu       sync.Mutex
	session  *mux.Session
	endpoint Endpoint
	err      error                                   // of Endpoint
	refuse   mux.RelayStatus                         // by the agent
	dial     func(context.Context) (net.Conn, error) // by the agent
	silent   bool                                    // the agent does not answer
}

// Endpoint implements Directory.
func (w *world) Endpoint(_ context.Context, name Name) (Endpoint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return Endpoint{}, w.err
	}
	if name.Sandbox != "web" {
		return Endpoint{}, ErrNoSandbox
	}
	if name.Service != "" && name.Service != "api" {
		return Endpoint{}, ErrNoService
	}
	e := w.endpoint
	e.Service = name.Service
	return e, nil
}

// OpenRelay implements Relays.
func (w *world) OpenRelay(ctx context.Context, sandboxID, service string) (mux.Duplex, error) {
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if sandboxID != "id-web" {
		w.t.Errorf("a relay to sandbox %q", sandboxID)
	}
	r, err := s.OpenRelay(ctx, service)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// set changes what the world is like.
func (w *world) set(f func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w)
}

// handle is the agent.
func (w *world) handle(s *mux.Stream) {
	w.mu.Lock()
	refuse, dial, silent := w.refuse, w.dial, w.silent
	w.mu.Unlock()
	switch {
	case silent:
		_, _ = io.Copy(io.Discard, s)
		_ = s.Close()
		return
	case refuse != 0:
		_ = s.Answer(refuse)
		_ = s.Close()
		return
	}
	c, err := dial(context.Background())
	if err != nil {
		_ = s.Answer(mux.RelayRefused)
		_ = s.Close()
		return
	}
	_ = s.Answer(mux.RelayAccepted)
	_ = mux.Join(context.Background(), mux.RelayPatience(), s, c.(mux.Duplex))
}

// newWorld serves an application. Nil: each test has its own dial.
func newWorld(t testing.TB, app http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t}
	logger := testkit.Logger(t)
	port := uint16(5173)
	if app != nil {
		w.app = httptest.NewServer(app)
		t.Cleanup(func() {
			w.app.CloseClientConnections()
			w.app.Close()
		})
		addr := w.app.Listener.Addr()
		port = uint16(addr.(*net.TCPAddr).Port)
		w.dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr.String())
		}
	}
	w.endpoint = Endpoint{SandboxID: "id-web", Port: port, Phase: "ready", Open: true}
	agent, session := muxtest.Connect(t, "unix", mux.Config{Handle: w.handle}, mux.Config{})
	w.session = session
	own := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "the gateway's own") })
	w.router = New(Config{
		Domain: domain, Own: own, Directory: w, Relays: w, Logger: logger,
		IsAdmin: func(token string) bool { return token == "admin-token" },
	})
	front := httptest.NewServer(w.router)
	w.addr = front.Listener.Addr().String()
	w.client = &http.Client{
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return w.connect(ctx) },
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	w.stop = sync.OnceFunc(func() {
		w.client.CloseIdleConnections()
		front.CloseClientConnections()
		_ = session.Close()
		_ = agent.Close()
		w.router.Close()
		front.Close()
	})
	t.Cleanup(w.stop)
	return w
}

func (w *world) connect(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", w.addr)
}

// host is the service's, with a port as a browser has it.
const host = "default--web.sandbox.localhost:17680"

// do sends a request to the service and returns the response, whose body the
// test closes at the latest.
func (w *world) do(method, path string, body io.Reader, headers ...string) *http.Response {
	w.t.Helper()
	resp, err := w.client.Do(w.request(method, path, body, headers...))
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func (w *world) request(method, path string, body io.Reader, headers ...string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+host+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// raw sends bytes on a connection of its own.
func (w *world) raw(text string) (*net.TCPConn, *bufio.Reader) {
	w.t.Helper()
	c, err := w.connect(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		w.t.Fatal(err)
	}
	return c.(*net.TCPConn), bufio.NewReader(c)
}

func text(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(b)
}
