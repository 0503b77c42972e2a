// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package muxtest

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// Gateway is an HTTP handler that agents can reach over real sockets.
type Gateway struct {
	HTTPS string // "https://127.0.0.1:PORT"
	Unix  string // "unix:/PATH"
	CA    *CA
}

// Serve serves h as a gateway's supervisor listener does, with a throwaway CA.
func Serve(t testing.TB, h http.Handler) *Gateway {
	t.Helper()
	ca := NewCA(t)
	// The path of a socket is short of room, hence not t.TempDir.
	dir, err := os.MkdirTemp("", "mux")
	if err != nil {
		t.Fatalf("directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	plain, secured := listen(t, "unix", socket), listen(t, "tcp", "127.0.0.1:0")
	serve(t, mux.NewServer(h, nil, nil), func(s *http.Server) error { return s.Serve(plain) })
	serve(t, mux.NewServer(h, ca.Server(), nil), func(s *http.Server) error {
		return s.ServeTLS(mux.LimitHandshakes(secured, 0), "", "")
	})
	return &Gateway{HTTPS: "https://" + secured.Addr().String(), Unix: "unix:" + socket, CA: ca}
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func serve(t testing.TB, s *http.Server, run func(*http.Server) error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(s); err != http.ErrServerClosed {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
}

// Dialer returns a dialer with valid fields for one of the gateway's two
// addresses.
func (g *Gateway) Dialer(address string) *mux.Dialer {
	return &mux.Dialer{
		Gateway:  address,
		TLS:      g.CA.Client(),
		Token:    func() (secret.String, error) { return secret.New("token"), nil },
		Instance: "instance-1",
		Version:  "0.0.0-test",
	}
}

// Accept returns a handler that accepts every well-formed handshake, and the
// sessions that it makes, which are closed when the test ends.
func Accept(t testing.TB, cfg mux.Config) (http.Handler, <-chan *mux.Session) {
	sessions := make(chan *mux.Session, 1024)
	var mu sync.Mutex
	var made []*mux.Session
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range made {
			_ = s.Close()
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, refusal := mux.ParseHello(r); refusal != nil {
			refusal.Write(w)
			return
		}
		s, err := mux.Upgrade(w, r, cfg)
		if err != nil {
			return // the peer has gone
		}
		mu.Lock()
		made = append(made, s)
		mu.Unlock()
		sessions <- s
	}), sessions
}

// Connect is Pair over one of the two real transports: https or unix.
func Connect(t testing.TB, transport string, agent, gateway mux.Config) (*mux.Session, *mux.Session) {
	t.Helper()
	handler, sessions := Accept(t, gateway)
	g := Serve(t, handler)
	address := g.HTTPS
	if transport == "unix" {
		address = g.Unix
	}
	a, err := g.Dialer(address).Dial(t.Context(), agent)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a, <-sessions
}

// Each runs a test over every transport: a pipe, a unix socket, TCP with TLS.
// The body gets its sessions, as from Pair, from connect.
func Each(t *testing.T, body func(t *testing.T, connect Connector)) {
	t.Run("pipe", func(t *testing.T) { body(t, Pair) })
	for _, transport := range []string{"unix", "https"} {
		t.Run(transport, func(t *testing.T) {
			body(t, func(t testing.TB, agent, gateway mux.Config) (*mux.Session, *mux.Session) {
				return Connect(t, transport, agent, gateway)
			})
		})
	}
}

// Connector makes the two ends of a session.
type Connector = func(t testing.TB, agent, gateway mux.Config) (a, g *mux.Session)
