// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
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

// What has come to its end is closed in good order, what was given up half way
// is reset at once, so that nobody goes on talking to nobody.
func TestHowRelaysEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		method, head string
		giveUp       bool
		want         error
	}{
		"complete, kept":     {"GET", "Content-Length: 2\r\n\r\nok", false, io.EOF},
		"complete":           {"POST", "Content-Length: 2\r\n\r\nok", false, io.EOF},
		"complete, chunked":  {"POST", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, io.EOF},
		"no body, kept":      {"GET", "Content-Length: 0\r\n\r\n", false, io.EOF},
		"no body":            {"POST", "Content-Length: 0\r\n\r\n", false, io.EOF},
		"given up":           {"GET", "Content-Length: 200\r\n\r\nok", true, syscall.ECONNRESET},
		"an event stream":    {"GET", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", true, syscall.ECONNRESET},
		"given up by a POST": {"POST", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", true, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			ended := make(chan error, 1)
			w.dial = func(ctx context.Context) (net.Conn, error) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return nil, err
				}
				go func() {
					defer func() { _ = l.Close() }()
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer func() { _ = c.Close() }()
					br := bufio.NewReader(c)
					if _, err := http.ReadRequest(br); err != nil {
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+tt.head)
					_, err = br.ReadByte() // it says nothing more, whatever happens
					ended <- err
				}()
				return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
			}
			resp := w.do(tt.method, "/", nil)
			if tt.giveUp {
				_, _ = io.ReadFull(resp.Body, make([]byte, 2))
			} else {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
			start := time.Now()
			_ = resp.Body.Close()
			if err := <-ended; !errors.Is(err, tt.want) || time.Since(start) > idleTimeout+time.Second {
				t.Errorf("the service sees %v after %v", err, time.Since(start))
			}
		})
	}
}
