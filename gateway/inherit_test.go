// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// dup returns another listener on the same socket, as a service manager has
// one that outlives the process it is passed to.
func dup(t *testing.T, l net.Listener) net.Listener {
	t.Helper()
	f, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func bind(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A connection that arrives while no gateway runs waits in the inherited
// socket, and the next gateway answers it.
func TestInheritedSocketsOutliveTheGateway(t *testing.T) {
	dir := t.TempDir()
	held := map[string]net.Listener{
		SocketGRPC: bind(t, "tcp", "127.0.0.1:0"), SocketHTTP: bind(t, "tcp", "127.0.0.1:0"),
		SocketSupervisor: bind(t, "tcp", "127.0.0.1:0"), SocketOps: bind(t, "tcp", "[::1]:0"),
		SocketLocal: bind(t, "unix", filepath.Join(dir, "agent.sock")),
	}
	life := func(during func()) {
		cfg := DefaultConfig()
		cfg.StateDir, cfg.DrainGrace = filepath.Join(dir, "state"), 0
		cfg.Inherited = make(map[string][]net.Listener)
		for name, l := range held {
			cfg.Inherited[name] = []net.Listener{dup(t, l)}
		}
		g, err := New(t.Context(), cfg, testkit.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ready, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- g.Run(ctx, Hooks{Ready: func() { close(ready) }}) }()
		<-ready
		during()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	life(func() {})
	conn, err := net.Dial("tcp", held[SocketHTTP].Addr().String()) // nobody accepts now
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
	life(func() {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("a connection between two lives failed: %v", err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
	if _, err := os.Stat(filepath.Join(dir, "agent.sock")); err != nil {
		t.Errorf("the gateway removed a socket that is not its own: %v", err)
	}
}

func TestInheritedFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		passed map[string]string // name: network, or networks
		change func(*Config)
		want   string
	}{
		"unknown name": {
			passed: map[string]string{"gprc": "tcp"},
			want:   `"gprc": no such listener; FileDescriptorName= is one of grpc, http, ops, supervisor, supervisor-socket`,
		},
		"two of one name": {passed: map[string]string{SocketOps: "tcp tcp"}, want: `"ops": 2 sockets have this name`},
		"a unix socket for the API": {
			passed: map[string]string{SocketGRPC: "unix"}, want: `"grpc": is of unix; tcp is needed`,
		},
		"another address is configured": {
			passed: map[string]string{SocketHTTP: "tcp"}, change: func(c *Config) { c.HTTPListen = "0.0.0.0:80" },
			want: `http-listen: "0.0.0.0:80" is configured, but the inherited socket is "127.0.0.1:`,
		},
		"another path is configured": {
			passed: map[string]string{SocketLocal: "unix"}, change: func(c *Config) { c.SupervisorSocket = "/run/elsewhere.sock" },
			want: `supervisor-socket: "/run/elsewhere.sock" is configured, but the inherited socket is`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.StateDir = t.TempDir()
			cfg.GRPCListen, cfg.HTTPListen, cfg.SupervisorListen, cfg.OpsListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
			cfg.Inherited = make(map[string][]net.Listener)
			for name, networks := range tc.passed {
				for network := range strings.FieldsSeq(networks) {
					addr := "127.0.0.1:0"
					if network == "unix" {
						addr = filepath.Join(t.TempDir(), "s")
					}
					cfg.Inherited[name] = append(cfg.Inherited[name], bind(t, network, addr))
				}
			}
			if tc.change != nil {
				tc.change(&cfg)
			}
			_, err := New(t.Context(), cfg, testkit.Logger(t))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			for name, passed := range cfg.Inherited {
				for _, l := range passed {
					if err := l.Close(); !errors.Is(err, net.ErrClosed) {
						t.Errorf("%s was left open: %v", name, err)
					}
				}
			}
		})
	}
}

func TestAgree(t *testing.T) {
	for _, tc := range []struct {
		configured, inherited string
		ok                    bool
	}{
		{"127.0.0.1:17670", "10.0.0.1:1", true}, // the default: not configured
		{"127.0.0.1:80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"127.0.0.1:0", "127.0.0.1:81", true}, // any port
		{"127.0.0.1:0", "127.0.0.2:81", false},
		{"127.0.0.1:80", "127.0.0.2:80", false},
		{"127.0.0.1:80", "[::]:80", false},
		{"0.0.0.0:80", "[::]:80", true},
		{":80", "[::]:80", true},
		{":80", "127.0.0.1:80", false},
		{"[::1]:80", "[::1]:80", true},
		{"gateway.example:80", "10.0.0.1:80", true},
		{"gateway.example:80", "10.0.0.1:81", false},
	} {
		addr, err := net.ResolveTCPAddr("tcp", tc.inherited)
		if err != nil {
			t.Fatal(err)
		}
		if err := agree(tc.configured, "127.0.0.1:17670", addr); (err == nil) != tc.ok {
			t.Errorf("%s against %s: %v", tc.configured, tc.inherited, err)
		}
	}
}
