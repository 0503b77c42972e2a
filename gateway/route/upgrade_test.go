// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// upgrade is an application that switches protocols and then does what serve
// says.
func upgrade(serve func(*net.TCPConn, *bufio.Reader)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		c, brw, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\nSeen-Origin: "+r.Header.Get("Origin")+"\r\n\r\n")
		serve(c.(*net.TCPConn), brw.Reader)
	}
}

const wants = "GET /ws HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host + "\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"

// switched sends the request and returns the connection once it has switched.
func (w *world) switched(request string) (*net.TCPConn, *bufio.Reader, http.Header) {
	w.t.Helper()
	c, br := w.raw(request)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "websocket" {
		w.t.Fatalf("%v, %v", resp, err)
	}
	return c, br, resp.Header
}

// T21, T22: a WebSocket goes both ways, and either end may end first.
func TestUpgrade(t *testing.T) {
	heard := make(chan string, 1)
	w := newWorld(t, upgrade(func(c *net.TCPConn, br *bufio.Reader) {
		defer func() { _ = c.Close() }()
		first := make([]byte, 5)
		_, _ = io.ReadFull(br, first)
		_, _ = c.Write(first)
		switch string(first) {
		case "you  ": // the user ends first: the reply comes after
			rest, _ := io.ReadAll(br)
			_, _ = io.WriteString(c, "got "+string(rest))
		case "me   ": // the service ends first, and hears the rest
			_ = c.CloseWrite()
			rest, _ := io.ReadAll(br)
			heard <- string(rest)
		}
	}))
	for _, ends := range []string{"you  ", "me   "} {
		// The first message travels right behind the request.
		c, br, header := w.switched(wants + ends)
		if origin := header.Get("Seen-Origin"); origin != "http://localhost:"+w.port() {
			t.Errorf("the application sees the origin %q", origin)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(br, got); string(got) != ends || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		if ends == "you  " {
			_, _ = io.WriteString(c, "question")
			_ = c.CloseWrite()
			if reply := text(t, br); reply != "got question" {
				t.Errorf("reply %q", reply)
			}
			continue
		}
		if rest := text(t, br); rest != "" {
			t.Errorf("and %q", rest)
		}
		_, _ = io.WriteString(c, "farewell")
		_ = c.CloseWrite()
		if got := <-heard; got != "farewell" {
			t.Errorf("the service hears %q", got)
		}
	}
}

// A switch that nobody has asked for is no answer, and its relay ends.
func TestUpgradeThatWasNotAskedFor(t *testing.T) {
	w := newWorld(t, nil)
	over := make(chan error, 1)
	answer := ""
	w.dial = func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			br := bufio.NewReader(far)
			if _, err := http.ReadRequest(br); err == nil {
				_, _ = io.WriteString(far, "HTTP/1.1 101 x\r\n"+answer+"\r\n")
			}
			_, err := br.ReadByte()
			over <- err
		}()
		return closeOnly{near}, nil
	}
	for _, tt := range []struct{ asked, answer string }{
		{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"},
		{"", ""},
		{"websocket", "Connection: Upgrade\r\nUpgrade: other\r\n"},
		{"websocket", "Connection: Upgrades\r\nUpgrade: websocket\r\n"},
		{"websocket", "Upgrade: websocket\r\n"},
		{"websoc\x6bet", "Connection: Upgrade\r\nUpgrade: websoc\u212aet\r\n"},
	} {
		answer = tt.answer
		headers := []string{}
		if tt.asked != "" {
			headers = []string{"Connection", "Upgrade", "Upgrade", tt.asked}
		}
		resp := w.do("GET", "/", nil, headers...)
		if resp.StatusCode != 502 || resp.Header.Get(ErrorHeader) != "BadResponse" {
			t.Errorf("%+v: %d %v", tt, resp.StatusCode, resp.Header)
		}
		select {
		case <-over:
		case <-time.After(10 * time.Second):
			t.Fatalf("%+v: the relay stays", tt)
		}
	}
}

func (w *world) port() string {
	_, port, _ := net.SplitHostPort(w.app.Listener.Addr().String())
	return port
}

// T25: whatever is open, the Router ends with its server and its sessions.
func TestCloseEndsWhatIsOpen(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			upgrade(func(c *net.TCPConn, br *bufio.Reader) {
				_, _ = io.Copy(io.Discard, br)
				_ = c.Close()
			})(rw, r)
			return
		}
		_, _ = io.WriteString(rw, "data: 1\n\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	c, br, _ := w.switched(wants)
	events := w.do("GET", "/events", nil)
	_, _ = io.ReadFull(events.Body, make([]byte, 9))
	start := time.Now()
	w.stop()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("stopped after %v", took)
	}
	if _, err := br.ReadByte(); err == nil {
		t.Error("the socket is open")
	}
	if _, err := events.Body.Read(make([]byte, 1)); err == nil {
		t.Error("the event stream goes on")
	}
	_ = c.Close()
	if w.router.enter() {
		t.Error("requests are still let in")
	}
}
