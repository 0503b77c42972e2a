// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// serveCheaply answers on a port of 127.0.0.1 with plain system calls, so that
// what is measured is the attempt's as far as that is possible: the peer's CPU
// time is in it, but hardly any allocation.
func serveCheaply(b *testing.B) uint16 {
	b.Helper()
	l := listenOn(b, "127.0.0.1", 0)
	f, err := l.File()
	if err != nil {
		b.Fatal(err)
	}
	port := portOf(l)
	l.Close()
	fd := int(f.Fd()) // blocking from here on
	done := make(chan struct{})
	b.Cleanup(func() {
		syscall.Shutdown(fd, syscall.SHUT_RDWR)
		<-done
		f.Close()
	})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		for {
			c, _, err := syscall.Accept(fd)
			if err != nil {
				return
			}
			syscall.Read(c, buf)
			syscall.Write(c, answer)
			syscall.Close(c)
		}
	}()
	return port
}

// burst makes attempts as a round does, side by side, and reports the CPU time
// of the whole process for each.
func burst(b *testing.B, attempt func() error) {
	b.ReportAllocs()
	b.SetParallelism(4)
	before := cpuTime()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := attempt(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkAttempt(b *testing.B) {
	target := Target{Port: serveCheaply(b), Path: "/healthz"}
	h := NewHTTP("sandbox-agent/bench")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	burst(b, func() error {
		if a := h.Attempt(ctx, target); a.Outcome != Pass {
			b.Errorf("attempt = %+v", a)
		}
		return nil
	})
}

// BenchmarkAttemptRefused is what the once-a-second attempts of a service that
// is not up cost.
func BenchmarkAttemptRefused(b *testing.B) {
	target := Target{Port: freePort(b)}
	h := NewHTTP("sandbox-agent/bench")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	burst(b, func() error {
		if a := h.Attempt(ctx, target); a.Reason != Refused {
			b.Errorf("attempt = %+v", a)
		}
		return nil
	})
}

// BenchmarkAttemptNetHTTP is what an attempt costs with net/http, for
// comparison.
func BenchmarkAttemptNetHTTP(b *testing.B) {
	url := "http://127.0.0.1:" + portString(serveCheaply(b)) + "/healthz"
	client := &http.Client{
		Timeout:       AttemptTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: MaxHeaderBytes},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	burst(b, func() error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

func BenchmarkHead(b *testing.B) {
	text := []byte("HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n")
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var h head
		if h.read(text) != OK {
			b.Fatal("not OK")
		}
	}
}

func portString(p uint16) string { return strconv.Itoa(int(p)) }
