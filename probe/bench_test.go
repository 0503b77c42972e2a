// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// serveOK accepts connections on 127.0.0.1 and answers each with a small
// response, without spending more than it must.
func serveOK(b *testing.B) uint16 {
	b.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	b.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(buf)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			c.Close()
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func BenchmarkAttempt(b *testing.B) {
	t := Target{Port: serveOK(b), Path: "/healthz"}
	h := NewHTTP("sandbox-agent/bench")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if a := h.Attempt(ctx, t); a.Outcome != Pass {
			b.Fatalf("attempt = %+v", a)
		}
	}
}

// BenchmarkAttemptNetHTTP is what an attempt costs with net/http, for
// comparison.
func BenchmarkAttemptNetHTTP(b *testing.B) {
	url := "http://" + net.JoinHostPort("127.0.0.1", portString(serveOK(b))) + "/healthz"
	client := &http.Client{
		Timeout:       time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

func portString(p uint16) string { return strconv.Itoa(int(p)) }
