// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// proxyCommand makes this binary a plain reverse proxy, in a process of its own
// as the gateway is.
const proxyCommand = "plain-proxy"

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
// a plain reverse proxy to the same target.
func relay(b *bench) error {
	target, err := serveTarget()
	if err != nil {
		return err
	}
	defer target.Close()
	proxy, stop, err := plainProxy(b.ctx, target.Addr().String())
	if err != nil {
		return err
	}
	defer stop()
	ways := []*way{newWay("direct", target.Addr().String(), "localhost"), newWay("plain proxy", proxy, "localhost")}
	c, err := b.bed.Client()
	if err != nil {
		return err
	}
	for name, gateway := range map[string]string{"tls": c.Supervisor, "unix": c.Socket} {
		_, port, _ := net.SplitHostPort(target.Addr().String())
		agent, err := b.expose(name, port, gateway)
		if err != nil {
			return err
		}
		defer agent.Stop()
		_, addr, _ := strings.Cut(c.HTTP, "://")
		ways = append(ways, newWay("relay, "+name, addr, "default--"+name+".sandbox.localhost"))
	}
	return b.compare(ways)
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

const bulk = 512 << 20

func (b *bench) compare(ways []*way) error {
	b.printf("%-14s %14s %14s %14s %12s %12s %12s", "", "1 download", "8 downloads", "1 upload", "first byte", "p99", "16 clients")
	for _, w := range ways {
		one, err := rate(b.ctx, 1, func(ctx context.Context) (int64, error) {
			n, _, err := w.do(ctx, "GET", "/?"+strconv.Itoa(bulk), nil, 0)
			return n, err
		})
		if err != nil {
			return err
		}
		eight, err := rate(b.ctx, 8, func(ctx context.Context) (int64, error) {
			n, _, err := w.do(ctx, "GET", "/?"+strconv.Itoa(bulk/8), nil, 0)
			return n, err
		})
		if err != nil {
			return err
		}
		up, err := rate(b.ctx, 1, func(ctx context.Context) (int64, error) {
			_, _, err := w.do(ctx, "PUT", "/", io.LimitReader(zeros{}, bulk), bulk)
			return bulk, err
		})
		if err != nil {
			return err
		}
		var firsts []time.Duration
		if firsts, err = latencies(func() error {
			_, _, err := w.do(b.ctx, "GET", "/", nil, 0)
			return err
		}); err != nil {
			return err
		}
		began := time.Now()
		const many = 16
		if _, err := rate(b.ctx, many, func(ctx context.Context) (int64, error) {
			for range calls / many {
				if _, _, err := w.do(ctx, "GET", "/", nil, 0); err != nil {
					return 0, err
				}
			}
			return 0, nil
		}); err != nil {
			return err
		}
		perSecond := float64(calls/many*many) / time.Since(began).Seconds()
		b.printf("%-14s %9.0f MB/s %9.0f MB/s %9.0f MB/s %12v %12v %9.0f/s", w.name, one, eight, up, at(firsts, 50), at(firsts, 99), perSecond)
	}
	return nil
}

// rate runs n transfers at once and returns the megabytes per second of all
// together.
func rate(ctx context.Context, n int, transfer func(context.Context) (int64, error)) (float64, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total int64
	var failed error
	began := time.Now()
	for range n {
		wg.Go(func() {
			got, err := transfer(ctx)
			mu.Lock()
			defer mu.Unlock()
			total += got
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return float64(total) / 1e6 / time.Since(began).Seconds(), failed
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

// plainProxy starts a plain reverse proxy to the target.
func plainProxy(ctx context.Context, target string) (addr string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, proxyCommand, target)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("the plain proxy: %w", err)
	}
	return strings.TrimSpace(string(buf[:n])), stop, nil
}

// servePlainProxy is the plain proxy's process.
func servePlainProxy(target string, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	u := &url.URL{Scheme: "http", Host: target}
	p := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		FlushInterval: -1,
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	return s.Serve(l)
}
