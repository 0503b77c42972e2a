// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// numbered is an application that says how many connections it has had, and
// hangs up in the middle of the second request on each.
func numbered(t *testing.T, w *world, conns *atomic.Int32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := conns.Add(1)
			go func() {
				defer func() { _ = c.Close() }()
				br := bufio.NewReader(c)
				for i := range 2 {
					r, err := http.ReadRequest(br)
					if err != nil || i > 0 {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					text := fmt.Sprint(n)
					_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
				}
			}()
		}
	}()
	w.dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}

// T01: a relay that is used again and has died meanwhile costs nothing but a new
// one.
func TestDeadRelayIsReplaced(t *testing.T) {
	w := newWorld(t, nil)
	var conns atomic.Int32
	numbered(t, w, &conns)
	for i := range 20 {
		resp := w.do("GET", "/", nil)
		if body := text(t, resp.Body); resp.StatusCode != 200 || body == "" {
			t.Fatalf("request %d: %d %q", i, resp.StatusCode, body)
		}
		_ = resp.Body.Close()
	}
}

// What may not be sent twice, or belongs to its connection, has a relay of its
// own.
func TestRelaysThatAreNotShared(t *testing.T) {
	w := newWorld(t, nil)
	var conns atomic.Int32
	numbered(t, w, &conns)
	for _, tt := range []struct {
		method, body string
		headers      []string
	}{
		{"POST", "", nil},
		{"POST", "body", nil},
		{"DELETE", "", nil},
		{"GET", "body", nil},
		{"GET", "", []string{"Upgrade", "x", "Connection", "Upgrade"}},
		{"GET", "", []string{"Authorization", "NTLM abc"}},
		{"GET", "", []string{"Authorization", "negotiate abc"}},
	} {
		var body io.Reader
		if tt.body != "" {
			body = strings.NewReader(tt.body)
		}
		before := conns.Load()
		for range 2 {
			resp := w.do(tt.method, "/", body, tt.headers...)
			if got := text(t, resp.Body); resp.StatusCode != 200 {
				t.Errorf("%s %v: %d %q", tt.method, tt.headers, resp.StatusCode, got)
			}
			body = nil
			if tt.body != "" {
				body = strings.NewReader(tt.body)
			}
		}
		if n := conns.Load() - before; n != 2 {
			t.Errorf("%s %v: %d connections for two requests", tt.method, tt.headers, n)
		}
	}
}
