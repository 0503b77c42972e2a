// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// TestRequestBytes holds what a service sees, byte for byte.
func TestRequestBytes(t *testing.T) {
	for _, tt := range []struct {
		path, agent, want string
	}{
		{
			"", "sandbox-agent/1.2.3",
			"GET / HTTP/1.1\r\nHost: localhost:PORT\r\nUser-Agent: sandbox-agent/1.2.3\r\nAccept: */*\r\nConnection: close\r\n\r\n",
		},
		{
			"/a/%20;b", "x\r\nCookie: \x80y",
			"GET /a/%20;b HTTP/1.1\r\nHost: localhost:PORT\r\nUser-Agent: xCookie: y\r\nAccept: */*\r\nConnection: close\r\n\r\n",
		},
	} {
		l, port := listen(t, "127.0.0.1")
		got := make(chan string, 1)
		serve(t, l, func(c *net.TCPConn) {
			got <- readRequest(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		})
		if a := NewHTTP(tt.agent).Attempt(t.Context(), Target{Port: port, Path: tt.path}); a.Outcome != Pass {
			t.Fatalf("attempt = %+v", a)
		}
		if r, want := <-got, strings.ReplaceAll(tt.want, "PORT", portString(port)); r != want {
			t.Errorf("request %q\nwant    %q", r, want)
		}
	}
}

func TestLargestRequestFits(t *testing.T) {
	path := "/" + strings.Repeat("x", maxPath-1)
	l, port := listen(t, "127.0.0.1")
	serve(t, l, func(c *net.TCPConn) {
		if strings.HasPrefix(readRequest(c), "GET "+path+" HTTP/1.1\r\n") {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		}
	})
	if a := NewHTTP("sandbox-agent/1").Attempt(t.Context(), Target{Port: port, Path: path}); a.Outcome != Pass {
		t.Errorf("attempt = %+v", a)
	}
}

// TestPeers is one attempt against each kind of peer.
func TestPeers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n\r\n"
	for _, tt := range []struct {
		name  string
		peer  peer
		path  string
		want  Reason
		code  uint16
		takes time.Duration // at least
	}{
		{"200", says(ok), "/readyz", OK, 200, 0},
		{"204", says("HTTP/1.1 204 No Content\r\n\r\n"), "/readyz", OK, 204, 0},
		{"299", says("HTTP/1.1 299 ?\r\n\r\n"), "/readyz", OK, 299, 0},
		{"301 is not followed", says("HTTP/1.1 301 Moved\r\nLocation: /other\r\n\r\n"), "/readyz", BadStatus, 301, 0},
		{"304", says("HTTP/1.1 304 Not Modified\r\n\r\n"), "/", BadStatus, 304, 0},
		{"404", says("HTTP/1.1 404 Not Found\r\n\r\n"), "/readyz", BadStatus, 404, 0},
		{"500", says("HTTP/1.1 500 Oh\r\n\r\n"), "/readyz", BadStatus, 500, 0},
		{"101 is not ready", says("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "/readyz", BadStatus, 101, 0},
		{"301 is responsive", says("HTTP/1.1 301 Moved\r\nLocation: //example.org/\r\n\r\n"), "", OK, 301, 0},
		{"404 is responsive", says("HTTP/1.1 404 Not Found\r\n\r\n"), "", OK, 404, 0},
		{"500 is responsive", says("HTTP/1.1 500 Oh\r\n\r\n"), "", OK, 500, 0},
		{"101 is responsive", says("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "", OK, 101, 0},
		{"interim, then 200", says("HTTP/1.1 100 Continue\r\n\r\n" + ok), "/readyz", OK, 200, 0},
		{"interim only", says("HTTP/1.1 103 Early Hints\r\n\r\n"), "/readyz", Closed, 0, 0},

		{"T03 endless body", repeats(ok, strings.Repeat("x", 4096)), "/readyz", OK, 200, 0},
		{"T03 event stream", func(c *net.TCPConn) { says(ok)(c); waitHangUp(c) }, "/readyz", OK, 200, 0},
		{"T03 truncated chunk", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx"), "/readyz", OK, 200, 0},
		{"T03 shorter than it says", says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), "/readyz", OK, 200, 0},

		{"hangs after accept", hangs, "/readyz", Timeout, 0, time.Second},
		{"drips a header", drips, "/readyz", Timeout, 0, time.Second},
		{"closes at once", func(c *net.TCPConn) { c.CloseWrite(); waitHangUp(c) }, "/readyz", Closed, 0, 0},
		{"closes after the request", says(""), "/readyz", Closed, 0, 0},
		{"closes in the head", says("HTTP/1.1 200 OK\r\nA: b"), "/readyz", Closed, 0, 0},
		{"resets", resets, "/readyz", Reset, 0, 0},
		{"answers without reading", func(c *net.TCPConn) { io.WriteString(c, ok) }, "/readyz", OK, 200, 0},

		{"T30 endless headers", repeats("HTTP/1.1 200 OK\r\n", "X-Filler: "+strings.Repeat("x", 500)+"\r\n"), "/readyz", HeadersTooLarge, 0, 0},
		{"T30 one endless line", repeats("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 500)), "", HeadersTooLarge, 0, 0},
		{"T30 interim storm", repeats("", "HTTP/1.1 100 Continue\r\n\r\n"), "", HeadersTooLarge, 0, 0},

		{"T04 TLS alert", says("\x15\x03\x01\x00\x02\x02\x46"), "", NotHTTP, 0, 0},
		{"T04 TLS server's 400", says("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), "/", BadStatus, 400, 0},
		{"T04 SSH", func(c *net.TCPConn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n"); waitHangUp(c) }, "", NotHTTP, 0, 0},
		{"T04 HTTP/2 only", says("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80" + "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"), "", NotHTTP, 0, 0},
		{"T04 garbage", repeats("", "\x00"), "", NotHTTP, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, port := listen(t, "127.0.0.1")
			serve(t, l, tt.peer)
			a := undisturbed(t.Context(), Target{Port: port, Path: tt.path})
			if a.Reason != tt.want || a.Outcome != tt.want.outcome() || a.Code != tt.code || a.Addr != loopback4 {
				t.Errorf("attempt = %+v, want %v, code %d, from 127.0.0.1", a, tt.want, tt.code)
			}
			if a.Latency < tt.takes || tt.takes == 0 && a.Latency > AttemptTimeout || a.End.Sub(a.Start) != a.Latency {
				t.Errorf("took %v, want about %v", a.Latency, tt.takes)
			}
		})
	}
}

// undisturbed makes an attempt that this machine was not too busy for.
func undisturbed(ctx context.Context, target Target) (a Attempt) {
	h := NewHTTP("sandbox-agent/test")
	for range 5 {
		if a = h.Attempt(ctx, target); a.Reason != Late {
			break
		}
	}
	return a
}

// drips sends a header section one byte at a time, and never all of it.
func drips(c *net.TCPConn) {
	readRequest(c)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for text := largest(MaxHeaderBytes); text != ""; text = text[1:] {
		if _, err := io.WriteString(c, text[:1]); err != nil {
			return
		}
		<-tick.C
	}
}

// TestTLSServer holds T04 against a real one.
func TestTLSServer(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	l, port := listen(t, "127.0.0.1")
	serve(t, l, func(c *net.TCPConn) {
		if err := tls.Server(c, config).Handshake(); err == nil {
			t.Error("the attempt spoke TLS")
		}
	})
	a := NewHTTP("sandbox-agent/test").Attempt(t.Context(), Target{Port: port})
	if a.Outcome != Fail || a.Reason != NotHTTP && a.Reason != Closed && a.Reason != Reset {
		t.Errorf("attempt = %+v", a)
	}
}

func TestInvalidTargetsAreNotTried(t *testing.T) {
	h := NewHTTP("sandbox-agent/test")
	for _, target := range []Target{{}, {Port: 1, Path: "x"}, {Port: 1, Path: "/\r\n"}} {
		if a := h.Attempt(t.Context(), target); a.Outcome != Inconclusive || a.Reason != Internal {
			t.Errorf("%q: %+v", target.Path, a)
		}
	}
}

func TestCancelEndsAnAttempt(t *testing.T) {
	l, port := listen(t, "127.0.0.1")
	ctx, cancel := context.WithCancel(t.Context())
	serve(t, l, func(c *net.TCPConn) {
		readRequest(c)
		cancel()
		waitHangUp(c)
	})
	a := NewHTTP("sandbox-agent/test").Attempt(ctx, Target{Port: port})
	if a.Outcome != Inconclusive || a.Reason != Internal || a.Latency > 900*time.Millisecond {
		t.Errorf("attempt = %+v", a)
	}
	hanging := Target{Port: fullBacklog(t)}
	if a := NewHTTP("sandbox-agent/test").Attempt(ctx, hanging); a.Reason != Internal || a.Latency > 900*time.Millisecond {
		t.Errorf("attempt that dials = %+v", a)
	}
}

// TestContextWithoutCancel: the deadline holds under such a context too.
func TestContextWithoutCancel(t *testing.T) {
	t.Parallel()
	a := undisturbed(context.Background(), Target{Port: fullBacklog(t)})
	if a.Reason != Timeout || a.Latency > 1500*time.Millisecond {
		t.Errorf("attempt = %+v", a)
	}
}

func TestPanicIsInconclusive(t *testing.T) {
	h := NewHTTP("sandbox-agent/test")
	h.dial = nil
	if a := h.Attempt(t.Context(), Target{Port: 1}); a.Outcome != Inconclusive || a.Reason != Internal || a.End.IsZero() {
		t.Errorf("attempt = %+v", a)
	}
	if h.meter.joined != 0 {
		t.Error("the meter still runs")
	}
}

// TestListenerGone holds T01: a connection that is still open keeps nothing
// healthy.
func TestListenerGone(t *testing.T) {
	l, port := listen(t, "127.0.0.1")
	release := make(chan struct{})
	served := make(chan struct{})
	serve(t, l, func(c *net.TCPConn) {
		says("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")(c)
		close(served)
		<-release
	})
	t.Cleanup(func() { close(release) })
	h, j := NewHTTP("sandbox-agent/test"), NewJudge(time.Now())
	target := Target{Port: port, Path: "/"}
	if v, _ := j.Observe(h.Attempt(t.Context(), target), false); v.State != Healthy {
		t.Fatalf("verdict = %+v", v)
	}
	<-served
	l.Close()
	for i := range FailThreshold {
		v, changed := j.Observe(h.Attempt(t.Context(), target), false)
		if v.Latest.Reason != Refused || changed != (i == FailThreshold-1) {
			t.Errorf("attempt %d: %+v, changed %v", i, v, changed)
		}
	}
	if s := j.Verdict().State; s != Unhealthy {
		t.Errorf("state = %v", s)
	}
}

// TestAnswerInTheBuffer holds T05 to the letter: the deadline is over before
// the first read, and what lies in the socket decides.
func TestAnswerInTheBuffer(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		closes     bool
		want       Reason
	}{
		{"an answer", "HTTP/1.1 200 OK\r\n\r\n", false, OK},
		{"an answer and a body", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 10000), false, OK},
		{"an answer longer than a read", largest(MaxHeaderBytes), true, OK},
		{"headers without end", largest(MaxHeaderBytes + 1), true, HeadersTooLarge},
		{"no answer", "", false, Timeout},
		{"half an answer", "HTTP/1.1 200 OK\r\n", false, Timeout},
		{"half an answer, and closed", "HTTP/1.1 200 OK\r\n", true, Timeout},
		{"another protocol", "SSH-2.0-x\r\n", false, NotHTTP},
	} {
		l, _ := listen(t, "127.0.0.1")
		written := make(chan struct{})
		serve(t, l, func(c *net.TCPConn) {
			io.WriteString(c, tt.text)
			if tt.closes {
				c.CloseWrite()
			}
			close(written)
			waitHangUp(c)
		})
		conn, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
		if err != nil {
			t.Fatal(err)
		}
		<-written
		h := NewHTTP("sandbox-agent/test")
		var hd head
		if got := h.exchange(t.Context(), conn, loopback4, Target{Port: 1}, time.Now().Add(-time.Second), &hd); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		conn.Close()
	}
}
