// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Events arrive when they are sent, and uploads while they are made.
func TestStreamsAreFlushed(t *testing.T) {
	step := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(rw)
		_ = rc.EnableFullDuplex()
		if r.URL.Path == "/events" {
			rw.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				_, _ = fmt.Fprintf(rw, "data: %d\n\n", i)
				_ = rc.Flush()
				<-step
			}
			return
		}
		_ = rc.Flush()
		_, _ = io.Copy(flushing{rw, rc}, r.Body)
	})
	events := bufio.NewReader(w.do("GET", "/events", nil).Body)
	for i := range 3 {
		line, err := events.ReadString('\n')
		if want := fmt.Sprintf("data: %d\n", i); line != want || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = events.ReadString('\n')
		step <- struct{}{}
	}
	if rest := text(t, events); rest != "" {
		t.Errorf("and %q", rest)
	}

	upload, writing := io.Pipe()
	body := w.do("POST", "/echo", upload).Body
	for i := range 3 {
		_, _ = fmt.Fprintf(writing, "part %d", i)
		buf := make([]byte, 6)
		if _, err := io.ReadFull(body, buf); string(buf) != fmt.Sprintf("part %d", i) || err != nil {
			t.Fatalf("%q, %v", buf, err)
		}
	}
	_ = writing.Close()
	if rest := text(t, body); rest != "" {
		t.Errorf("and %q", rest)
	}
}

type flushing struct {
	io.Writer
	rc *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	_ = f.rc.Flush()
	return n, err
}

// What goes through is what was sent, both ways at once, of known and unknown
// length.
func TestBytesAreExact(t *testing.T) {
	const size = 4<<20 + 17
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, _ := io.Copy(sum, r.Body)
		rw.Header().Set("Trailer", "Sum")
		if r.URL.Path == "/known" {
			rw.Header().Set("Content-Length", fmt.Sprint(size))
			rw.Header().Del("Trailer")
		}
		rw.Header().Set("Uploaded", fmt.Sprintf("%d %x", n, sum.Sum(nil)))
		down := sha256.New()
		_, _ = io.Copy(io.MultiWriter(rw, down), io.LimitReader(rand.NewChaCha8([32]byte{2}), size))
		rw.Header().Set("Sum", fmt.Sprintf("%x", down.Sum(nil)))
	})
	up, down := sha256.New(), sha256.New()
	_, _ = io.Copy(up, io.LimitReader(rand.NewChaCha8([32]byte{1}), size))
	_, _ = io.Copy(down, io.LimitReader(rand.NewChaCha8([32]byte{2}), size))
	for _, path := range []string{"/known", "/chunked"} {
		r := w.request("PUT", path, io.LimitReader(rand.NewChaCha8([32]byte{1}), size))
		if path == "/known" {
			r.ContentLength = size
		}
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d %x", size, up.Sum(nil)); resp.Header.Get("Uploaded") != want {
			t.Errorf("%s: uploaded %s, want %s", path, resp.Header.Get("Uploaded"), want)
		}
		got := sha256.New()
		n, err := io.Copy(got, resp.Body)
		_ = resp.Body.Close()
		if n != size || err != nil || string(got.Sum(nil)) != string(down.Sum(nil)) {
			t.Errorf("%s: %d bytes came back, %v", path, n, err)
		}
		if path == "/chunked" && resp.Trailer.Get("Sum") != fmt.Sprintf("%x", down.Sum(nil)) {
			t.Errorf("trailer %v", resp.Trailer)
		}
	}
}

func TestRequestTrailers(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(rw, r.Trailer.Get("Sum"))
	})
	_, br := w.raw("POST / HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n3\r\nabc\r\n0\r\nSum: 42\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, resp.Body); got != "42" {
		t.Errorf("the application sees the trailer %q", got)
	}
}

func TestHead(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", "12345")
		rw.Header().Set("Method", r.Method)
	})
	resp := w.do("HEAD", "/", nil)
	if resp.StatusCode != 200 || resp.ContentLength != 12345 || resp.Header.Get("Method") != "HEAD" || text(t, resp.Body) != "" {
		t.Errorf("%d, length %d, %v", resp.StatusCode, resp.ContentLength, resp.Header)
	}
}

// A client that asks first learns what the application says, before it sends
// anything.
func TestExpectContinue(t *testing.T) {
	read := make(chan string, 1)
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			rw.WriteHeader(http.StatusExpectationFailed)
			return
		}
		b, _ := io.ReadAll(r.Body)
		read <- string(b)
	})
	ask := func(path string) (net.Conn, *bufio.Reader, string) {
		c, br := w.raw("POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return c, br, strings.TrimSpace(line)
	}
	start := time.Now()
	if _, _, line := ask("/no"); line != "HTTP/1.1 417 Expectation Failed" || time.Since(start) > continueTimeout {
		t.Errorf("%s after %v", line, time.Since(start))
	}
	start = time.Now()
	c, br, line := ask("/yes")
	if line != "HTTP/1.1 100 Continue" || time.Since(start) > continueTimeout {
		t.Fatalf("%s after %v", line, time.Since(start))
	}
	_, _ = io.WriteString(c, "hello")
	if got := <-read; got != "hello" {
		t.Errorf("read %q", got)
	}
	_, _ = br.ReadString('\n') // the end of the interim answer
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestInterimAnswers(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Link", "</style.css>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.WriteHeader(http.StatusNoContent)
	})
	var codes []int
	r := w.request("GET", "/", nil)
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			codes = append(codes, code)
			return nil
		},
	}))
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if len(codes) != 1 || codes[0] != 103 || resp.StatusCode != 204 {
		t.Errorf("%v, then %d", codes, resp.StatusCode)
	}
}

// An application that refuses an upload half way is heard.
func TestEarlyAnswer(t *testing.T) {
	w := newWorld(t, nil)
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
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
			_ = c.Close() // with unread bytes: a reset
		}()
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
	for range 5 {
		r := w.request("PUT", "/", io.LimitReader(rand.NewChaCha8([32]byte{}), 8<<20))
		r.ContentLength = 8 << 20
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, resp.Body); resp.StatusCode != 413 || got != "big" {
			t.Errorf("%d %q", resp.StatusCode, got)
		}
		_ = resp.Body.Close()
	}
}

// A response that breaks off is not passed off as complete.
func TestBrokenResponse(t *testing.T) {
	w := newWorld(t, nil)
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		w.set(func(w *world) { w.dial = speak(answer) })
		resp := w.do("GET", "/", nil)
		if b, err := io.ReadAll(resp.Body); string(b) != "half" || err == nil {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// Downloads that are given up leave nothing behind, and soon.
func TestAbortedDownloads(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(rw, zeros{})
	})
	abort := func() {
		resp := w.do("GET", "/", nil)
		_, _ = io.CopyN(io.Discard, resp.Body, 20<<10)
		_ = resp.Body.Close()
	}
	abort()
	settled := func() int {
		n := runtime.NumGoroutine()
		for range 1000 {
			<-time.After(10 * time.Millisecond)
			if w.session.NumStreams() == 0 {
				n = runtime.NumGoroutine()
				break
			}
		}
		return n
	}
	before := settled()
	for range 60 { // 200 of them: test/e2e
		abort()
	}
	after := before + 1
	for range 500 {
		if after = settled(); after <= before {
			return
		}
	}
	t.Errorf("%d goroutines, %d before", after, before)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
