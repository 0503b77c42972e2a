// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// way is one way to reach the target.
type way struct {
	name, addr, host string
	client           *http.Client
}

func newWay(name, addr, host string) *way {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	return &way{name: name, addr: addr, host: host, client: &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 64,
	}}}
}

// do sends one request and returns how many bytes came back, and when the
// first of them did.
func (w *way) do(ctx context.Context, method, path string, body io.Reader, length int64) (n int64, first time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.host+path, body)
	if err != nil {
		return 0, 0, err
	}
	r.ContentLength = length
	began := time.Now()
	resp, err := w.client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	first = time.Since(began)
	n, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", w.name, resp.Status)
	}
	return n, first, err
}

// relay measures what the way through gateway, session and agent costs, beside
// a plain reverse proxy to the same target, and beside one with a TLS tunnel
// between it and the target: as many processes as a relay has, and nothing in
// them but copying.
func relay(b *bench) error {
	target, err := serveTarget()
	if err != nil {
		return err
	}
	defer target.Close()
	proxy, stop, err := startSelf(b.ctx, proxyCommand, target.Addr().String())
	if err != nil {
		return err
	}
	defer stop()
	tunnel, stop, err := startSelf(b.ctx, tunnelCommand, target.Addr().String())
	if err != nil {
		return err
	}
	defer stop()
	tunnelled, stop, err := startSelf(b.ctx, tunnelledCommand, tunnel)
	if err != nil {
		return err
	}
	defer stop()
	ways := []*way{
		newWay("direct", target.Addr().String(), "localhost"), newWay("plain proxy", proxy, "localhost"),
		newWay("TLS tunnel", tunnelled, "localhost"),
	}
	c, err := b.bed.Client()
	if err != nil {
		return err
	}
	for _, session := range []struct{ name, gateway string }{{"tls", c.Supervisor}, {"unix", c.Socket}} {
		_, port, _ := net.SplitHostPort(target.Addr().String())
		agent, err := b.expose(session.name, port, session.gateway)
		if err != nil {
			return err
		}
		defer agent.Stop()
		_, addr, _ := strings.Cut(c.HTTP, "://")
		ways = append(ways, newWay("relay, "+session.name, addr, "default--"+session.name+".sandbox.localhost"))
	}
	if err := b.throughput(ways); err != nil {
		return err
	}
	return b.latency(ways)
}

// expose makes an external sandbox with one service, and starts its agent.
func (b *bench) expose(name, port, gateway string) (*kit.Process, error) {
	if r := b.bed.CLI(b.ctx, "sandbox", "create", name, "--expose", port); r.Code != 0 {
		return nil, fmt.Errorf("sandboxctl: %s", r.Stderr)
	}
	sb, err := b.bed.Sandbox(b.ctx, name)
	if err != nil {
		return nil, err
	}
	id := sb.GetSandbox().GetMetadata().GetId()
	agent, err := b.bed.Start("sandbox-agent", "run", "--gateway", gateway, "--ca-file", filepath.Join(b.bed.State, "ca.crt"),
		"--token-file", filepath.Join(b.bed.State, "sandboxes", id, "token"), "--ops-listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return agent, b.bed.UntilHealth(b.ctx, 20*time.Second, name, "", "HEALTHY")
}

// serveTarget serves as many bytes as the query says, and takes uploads.
func serveTarget() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		n, err := strconv.ParseInt(r.URL.RawQuery, 10, 64)
		if err != nil {
			n = 10
		}
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		_, _ = io.Copy(struct{ io.Writer }{w}, io.LimitReader(zeros{}, n))
	})}
	go s.Serve(l) // ends with the listener
	return l, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
