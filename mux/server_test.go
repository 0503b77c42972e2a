// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

// eager sends the request together with its first bytes, or the answer together
// with the first frames, and hides that from the session on it.
type eager struct {
	net.Conn
	first  string                    // put before the first write
	ready  func(*bufio.Reader) error // takes the peer's part of the handshake
	reader *bufio.Reader
	once   sync.Once
}

func (e *eager) Write(p []byte) (int, error) {
	first := e.first
	e.first = ""
	n, err := e.Conn.Write(append([]byte(first), p...))
	return n - len(first), err
}

func (e *eager) Read(p []byte) (int, error) {
	var err error
	e.once.Do(func() {
		e.reader = bufio.NewReader(e.Conn)
		err = e.ready(e.reader)
	})
	if err != nil {
		return 0, err
	}
	return e.reader.Read(p)
}

// Bytes that the agent sends before it has the answer are not lost.
func TestEarlyBytesOfTheAgent(t *testing.T) {
	handler, _ := muxtest.Accept(t, config(echo))
	gw := muxtest.Serve(t, handler)
	conn, err := net.Dial("unix", gw.Unix[len("unix:"):])
	if err != nil {
		t.Fatal(err)
	}
	agent, err := mux.NewAgentSession(&eager{Conn: conn, first: upgradeRequest, ready: func(r *bufio.Reader) error {
		_, err := http.ReadResponse(r, nil)
		return err
	}}, config(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	st := open(t, agent, mux.KindControl, "early")
	write(t, st, "ping")
	readN(t, st, 4)
	_ = st.Close()
}

// Frames that the gateway sends together with its answer are not lost.
func TestEarlyBytesOfTheGateway(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, g := net.Pipe()
		asked := make(chan struct{})
		gateway, err := mux.NewGatewaySession(&eager{Conn: g, first: switching, ready: func(r *bufio.Reader) error {
			_, err := http.ReadRequest(r)
			close(asked)
			return err
		}}, config(nil))
		if err != nil {
			t.Fatal(err)
		}
		opened := make(chan *mux.Stream, 1)
		go func() {
			<-asked
			st, err := gateway.Open(context.Background(), mux.KindRelay, []byte("early"))
			if err != nil {
				t.Errorf("open: %v", err)
			}
			opened <- st
		}()
		d := (&muxtest.Gateway{CA: &muxtest.CA{}}).Dialer("unix:/x")
		agent, err := mux.DialOver(context.Background(), d, a, config(echo))
		if err != nil {
			t.Fatal(err)
		}
		st := <-opened
		write(t, st, "ping")
		readN(t, st, 4)
		_ = st.Close()
		testkit.Wait()
		_, _ = agent.Close(), gateway.Close()
	})
}

// pipeListener serves the connections that it is given.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

func (l *pipeListener) dial() net.Conn {
	a, g := net.Pipe()
	l.conns <- g
	return a
}

// serveBubble runs a server until the bubble's body is over.
func serveBubble(t *testing.T, ca *muxtest.CA, h http.Handler) *pipeListener {
	l := newPipeListener()
	log := testkit.Logger(t)
	var s *http.Server
	ended := make(chan error, 1)
	if ca == nil {
		s = mux.NewServer(h, nil, log)
		go func() { ended <- s.Serve(l) }()
	} else {
		s = mux.NewServer(h, ca.Server(), log)
		go func() { ended <- s.ServeTLS(mux.LimitHandshakes(l, 1), "", "") }()
	}
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return l
}

// A peer that says nothing, or stops in the middle, is cut after 10 s; nobody
// else waits for it, although only one handshake is computed at a time (T29).
func TestSilentAgentIsCut(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		ca := muxtest.NewCA(t)
		hello := clientHello(t)
		for name, tc := range map[string]struct {
			ca   *muxtest.CA
			send string
		}{
			"no request":            {nil, ""},
			"half a request":        {nil, upgradeRequest[:60]},
			"half a body":           {nil, strings.Replace(upgradeRequest, "\r\n\r\n", "\r\nContent-Length: 9\r\n\r\nabc", 1)},
			"no TLS handshake":      {ca, ""},
			"half a TLS handshake":  {ca, hello[:50]},
			"TLS handshake unended": {ca, hello},
		} {
			handler, sessions := muxtest.Accept(t, config(nil))
			l := serveBubble(t, tc.ca, handler)
			start := time.Now()
			silent := l.dial()
			cut := make(chan time.Duration, 1)
			go func() {
				_, _ = io.WriteString(silent, tc.send)
				_, _ = io.Copy(io.Discard, silent)
				cut <- time.Since(start)
			}()
			testkit.Wait()
			d := (&muxtest.Gateway{CA: ca}).Dialer("unix:/x")
			if tc.ca != nil {
				d = (&muxtest.Gateway{CA: ca}).Dialer("https://localhost:1")
			}
			s, err := mux.DialOver(context.Background(), d, l.dial(), config(nil))
			if err != nil {
				t.Errorf("%s: another agent: %v", name, err)
				continue
			}
			<-sessions
			if took := time.Since(start); took != 0 {
				t.Errorf("%s: another agent waited %v", name, took)
			}
			if took := <-cut; took > 10*time.Second+500*time.Millisecond || took < 10*time.Second && name != "half a body" {
				t.Errorf("%s: cut after %v", name, took)
			}
			_ = silent.Close()
			_ = s.Close()
		}
	})
}

// clientHello returns what a TLS client says first.
func clientHello(t *testing.T) string {
	a, g := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = tls.Client(a, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS13}).Handshake()
	})
	p := make([]byte, 16<<10)
	n, err := g.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = g.Close(), a.Close()
	wg.Wait()
	return string(p[:n])
}

func TestServerRefusesGreatHeadsAndOtherProtocols(t *testing.T) {
	handler, _ := muxtest.Accept(t, config(nil))
	gw := muxtest.Serve(t, handler)
	conn, err := net.Dial("unix", gw.Unix[len("unix:"):])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, upgradeRequest[:len(upgradeRequest)-2]+"X: "+strings.Repeat("x", 64<<10))
	}()
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("great head: %v, %v", resp, err)
	}
	address := strings.TrimPrefix(gw.HTTPS, "https://")
	old := gw.CA.Client()
	old.MaxVersion = tls.VersionTLS12
	if c, err := tls.Dial("tcp", address, old); err == nil {
		_ = c.Close()
		t.Error("TLS 1.2 was accepted")
	}
	h2 := gw.CA.Client()
	h2.NextProtos = []string{"h2", "http/1.1"}
	c, err := tls.Dial("tcp", address, h2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("negotiated %q", got)
	}
}

// gated is a connection whose reads are answered by the test.
type gated struct {
	net.Conn
	reads chan string
}

func (g gated) Read(p []byte) (int, error)  { return copy(p, <-g.reads), nil }
func (g gated) Write(p []byte) (int, error) { return len(p), nil }
func (g gated) Close() error                { return nil }

// T29: at most so many handshakes are computed at once, and each way of getting
// on with one frees its place.
func TestLimitHandshakes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := newPipeListener()
		limited := mux.LimitHandshakes(l, 2)
		var conns []net.Conn
		var feeds []chan string
		entered := make(chan int, 10)
		for i := range 5 {
			feed := make(chan string, 2)
			go func() { l.conns <- gated{reads: feed} }()
			c, err := limited.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conns, feeds = append(conns, c), append(feeds, feed)
			go func() {
				_, _ = c.Read(make([]byte, 10))
				entered <- i
			}()
		}
		count := func() int { testkit.Wait(); return len(entered) }
		if n := count(); n != 0 {
			t.Fatalf("%d entered without a byte", n)
		}
		for _, f := range feeds {
			f <- "hello"
		}
		if n := count(); n != 2 {
			t.Fatalf("%d compute at once, want 2", n)
		}
		first, second := <-entered, <-entered
		_, _ = conns[first].Write([]byte("answer"))
		if n := count(); n != 0 {
			t.Fatalf("%d entered although both still compute", n)
		}
		go func() { _, _ = conns[first].Read(make([]byte, 10)) }() // awaits the peer
		_ = conns[second].Close()                                  // gives up
		if n := count(); n != 2 {
			t.Fatalf("%d entered the two free places", n)
		}
		third, fourth := <-entered, <-entered
		_ = conns[third].Close()
		if n := count(); n != 1 {
			t.Fatalf("%d entered the last place", n)
		}
		feeds[first] <- "finished" // no place is needed after the answer
		fifth := <-entered
		_, _ = conns[fourth].Close(), conns[fifth].Close()
		_ = conns[first].Close()
		_ = limited.Close()
	})
}

func TestManyAgentsAtOnce(t *testing.T) {
	handler, sessions := muxtest.Accept(t, config(echo))
	gw := muxtest.Serve(t, handler)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			s, err := gw.Dialer(gw.HTTPS).Dial(context.Background(), config(nil))
			if err != nil {
				t.Errorf("dial: %v", err)
				return
			}
			defer s.Close()
			st, err := s.Open(context.Background(), mux.KindControl, nil)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			_, _ = io.WriteString(st, "ping")
			_, _ = io.ReadFull(st, make([]byte, 4))
			_ = st.Close()
		})
	}
	wg.Wait()
	if len(sessions) != 40 {
		t.Errorf("%d sessions", len(sessions))
	}
}
