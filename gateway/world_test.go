// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/sandbox-agent/sandbox-agent/gateway/identity"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// patience bounds what a test waits for.
const patience = 20 * time.Second

// testConfig is a configuration on the loopback in a directory of its own. The
// directory's name is short: a socket's path has a limit.
func testConfig(t testing.TB) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := DefaultConfig()
	c.StateDir = filepath.Join(dir, "state")
	c.GRPCListen, c.HTTPListen, c.SupervisorListen, c.OpsListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.DrainGrace = 0
	return c
}

// running is a gateway that runs until its test ends.
type running struct {
	*Gateway
	t        testing.TB
	file     client // what client.json said when it was ready
	logged   *logBuffer
	cut      chan struct{}
	stopping chan struct{}
	cancel   context.CancelFunc
	done     chan error
	ended    bool
}

func start(t testing.TB, cfg Config, prepare ...func(*Gateway)) *running {
	t.Helper()
	return startLogging(t, cfg, testkit.Logger(t).Handler(), prepare...)
}

// startLogging is start for a test that expects errors in the log.
func startLogging(t testing.TB, cfg Config, handler slog.Handler, prepare ...func(*Gateway)) *running {
	t.Helper()
	r := &running{
		t: t, logged: &logBuffer{}, cut: make(chan struct{}), stopping: make(chan struct{}), done: make(chan error, 1),
	}
	logger := slog.New(slog.NewMultiHandler(handler, slog.NewJSONHandler(r.logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	var err error
	if r.Gateway, err = New(context.Background(), cfg, logger); err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(r.Gateway)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	ready := make(chan struct{})
	go func() {
		r.done <- r.Run(ctx, Hooks{
			Ready: func() {
				b, err := os.ReadFile(filepath.Join(cfg.StateDir, ClientFile))
				if err != nil || json.Unmarshal(b, &r.file) != nil {
					t.Errorf("%s when it is ready: %v %s", ClientFile, err, b)
				}
				close(ready)
			},
			Stopping: func() {
				if r.checker.Ready() || !r.checker.Draining() {
					t.Error("the gateway says that it stops while it is ready")
				}
				close(r.stopping)
			},
			Cut: r.cut,
		})
	}()
	t.Cleanup(func() { r.stop() })
	select {
	case <-ready:
	case err := <-r.done:
		r.ended = true
		t.Fatalf("the gateway has ended: %v", err)
	}
	return r
}

// stop asks the gateway to stop, if it has not ended, and waits for that.
func (r *running) stop() {
	r.t.Helper()
	if r.ended {
		return
	}
	r.cancel()
	r.wait()
}

// wait waits for the gateway's end.
func (r *running) wait() {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.ended = true
		if err != nil {
			r.t.Errorf("the gateway has ended with %v", err)
		}
	case <-time.After(patience):
		r.t.Fatal("the gateway does not end")
	}
}

// untilReady waits for /readyz.
func (r *running) untilReady() {
	r.t.Helper()
	eventually(r.t, "ready", func() bool { code, _ := get(r.t, r.file.HTTP+"/readyz"); return code == http.StatusOK })
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not %s within %v", what, patience)
		}
	}
}

// dial returns a connection to the API, with the token or without.
func (r *running) dial(token bool) *grpc.ClientConn {
	r.t.Helper()
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(filepath.Join(r.cfg.StateDir, r.file.CAFile))
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		r.t.Fatalf("no CA: %v", err)
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(pool, ""))}
	if token {
		b, err := os.ReadFile(filepath.Join(r.cfg.StateDir, r.file.TokenFile))
		if err != nil {
			r.t.Fatal(err)
		}
		header := "Bearer " + strings.TrimSpace(string(b))
		options = append(options,
			grpc.WithUnaryInterceptor(func(ctx context.Context, m string, req, resp any, c *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
				return next(metadata.AppendToOutgoingContext(ctx, "authorization", header), m, req, resp, c, o...)
			}),
			grpc.WithStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, m string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
				return next(metadata.AppendToOutgoingContext(ctx, "authorization", header), d, c, m, o...)
			}))
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(r.file.API, "https://"), options...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// get fetches a URL over a connection of its own.
func get(t testing.TB, url string) (code int, body string) {
	t.Helper()
	resp, err := httpClient(nil).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func httpClient(dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// handshake asks for a session over the unix socket.
func (r *running) handshake() *http.Response {
	r.t.Helper()
	c := httpClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(r.file.Socket, "unix:"))
	})
	resp, err := c.Get("http://gateway/supervisor/v1/session")
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// secrets are what must never be printed.
func (r *running) secrets() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for _, name := range []string{identity.AdminTokenFile, "ca.key", "sandbox-tokens.key"} {
		b, err := os.ReadFile(filepath.Join(r.cfg.StateDir, name))
		if err != nil {
			r.t.Fatal(err)
		}
		all[name] = strings.Split(strings.TrimPrefix(string(b), "-----BEGIN PRIVATE KEY-----\n"), "\n")[0]
	}
	return all
}

// logBuffer collects log lines of many goroutines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
