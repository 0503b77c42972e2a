// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// server serves HTTP on a free port of the sandbox's loopback.
func (s *site) server(h http.HandlerFunc) int {
	s.t.Helper()
	l, err := s.ns.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	s.t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().(*net.TCPAddr).Port
}

// user is an HTTP client of the site's services.
type user struct {
	s      *site
	client *http.Client
}

func (s *site) user() *user {
	_, addr, _ := strings.Cut(s.at.HTTP, "://")
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		DisableCompression: true,
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &user{s, &http.Client{Transport: transport}}
}

func hostOf(service string) string {
	if service != "" {
		service = "--" + service
	}
	return "default--" + box + service + ".sandbox.localhost"
}

// do sends a request to a service.
func (u *user) do(method, service, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(u.s.ctx, method, "http://"+hostOf(service)+path, body)
	if err != nil {
		return nil, err
	}
	return u.client.Do(r)
}

// text sends a GET request and returns the status, the gateway's word if the
// answer is its own, and the body.
func (u *user) text(service, path string) (status int, reason, body string) {
	u.s.t.Helper()
	resp, err := u.do("GET", service, path, nil)
	if err != nil {
		u.s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		u.s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Sandbox-Gateway-Error"), string(b)
}

// pattern is bytes of which no two megabytes are alike.
type pattern struct {
	block []byte
	at    int
	count uint64
}

func newPattern(seed byte) *pattern {
	p := &pattern{block: make([]byte, 1<<20)}
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(p.block)
	return p
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == len(p.block) {
		p.at = 0
		p.count++
	}
	if p.at == 0 {
		binary.BigEndian.PutUint64(p.block, p.count)
	}
	n := copy(b, p.block[p.at:])
	p.at += n
	return n, nil
}

// sums serves GET /N, N bytes of a pattern with their hash as a trailer, and
// answers an upload with the hash of what came.
func sums(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	if r.Method != http.MethodGet {
		n, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %v %x", n, err, sum.Sum(nil))
		return
	}
	n, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/"), 10, 64)
	w.Header().Set("Trailer", "Sum")
	_, _ = io.Copy(io.MultiWriter(w, sum), io.LimitReader(newPattern(1), n))
	w.Header().Set("Sum", hex.EncodeToString(sum.Sum(nil)))
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// fresh holds for a service that is good and whose health nothing may delay:
// once HEALTHY it stays so, and no observation is older than 10 s.
func fresh() rule {
	seen := false
	return func(r reading) string {
		if r.health.State == sandbox.HealthHealthy {
			seen = true
		} else if seen {
			return fmt.Sprintf("%v (%s), and neither target nor link have failed", r.health.State, r.health.Reason)
		}
		if age := r.younger(); seen && age > 10*time.Second {
			return fmt.Sprintf("the observation is %v old", age)
		}
		return ""
	}
}

// oldest is the greatest age that was read, at least.
func (w *watch) oldest() (age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.readings {
		if !r.health.LastChecked.IsZero() {
			age = max(age, r.younger())
		}
	}
	return age
}

// pressure is how long relays press on a session.
func pressure() time.Duration {
	if long() {
		return 2 * time.Minute
	}
	return 40 * time.Second
}

// goroutines is how many a daemon has.
func goroutines(t testing.TB, c *http.Client, ops string) int {
	t.Helper()
	m, err := metrics(t.Context(), c, ops)
	if err != nil {
		t.Fatal(err)
	}
	return int(m["go_goroutines"])
}
