// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// behaviour is what a target does with a connection whose request it has read.
// The connection is closed when it returns.
type behaviour func(x *target, c net.Conn)

// target is a server under probe. It takes note of when it was asked.
type target struct {
	t      *testing.T
	s      *site
	port   int
	addr   string
	closed chan struct{} // when the test ends

	mu       sync.Mutex
	listener net.Listener
	does     behaviour
	silent   bool // does not wait for a request
	asked    []time.Time
	answered []time.Time // with 200
	conns    map[net.Conn]bool
	wg       sync.WaitGroup
}

// target starts a server on a free port of 127.0.0.1 of the sandbox.
func (s *site) target(does behaviour) *target { return s.targetOn("127.0.0.1:0", does) }

func (s *site) targetOn(addr string, does behaviour) *target {
	s.t.Helper()
	x := &target{t: s.t, s: s, addr: addr, does: does, conns: map[net.Conn]bool{}, closed: make(chan struct{})}
	x.listen()
	s.t.Cleanup(func() {
		close(x.closed)
		x.unlisten()
		x.hangUp()
		x.wg.Wait()
	})
	return x
}

// listen makes the target accept connections, again on the same port.
func (x *target) listen() {
	x.t.Helper()
	host, _, _ := net.SplitHostPort(x.addr)
	l, err := net.Listener(nil), error(nil)
	for range 20 {
		port := x.port
		if port == 0 { // below those that the kernel gives to outgoing connections
			port = 20000 + rand.IntN(12000)
		}
		if l, err = x.s.ns.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			break
		}
	}
	if err != nil {
		x.t.Fatal(err)
	}
	x.port = l.Addr().(*net.TCPAddr).Port
	x.mu.Lock()
	x.listener = l
	x.mu.Unlock()
	x.wg.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			x.wg.Go(func() { x.serve(c) })
		}
	})
}

// unlisten ends the listener. Connections stay.
func (x *target) unlisten() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.listener.Close()
}

// hangUp ends the connections.
func (x *target) hangUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := range x.conns {
		c.Close()
	}
}

// turn makes the target behave otherwise from the next connection on, and
// returns when that was.
func (x *target) turn(does behaviour) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.does = does
	return time.Now()
}

func (x *target) serve(c net.Conn) {
	defer c.Close()
	x.mu.Lock()
	x.conns[c] = true
	x.asked = append(x.asked, time.Now())
	does, silent := x.does, x.silent
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.conns, c)
		x.mu.Unlock()
	}()
	if silent || readHead(bufio.NewReader(c)) {
		does(x, c)
	}
}

// readHead reads a request and reports whether it was whole.
func readHead(r *bufio.Reader) bool {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.TrimRight(line, "\r\n") == "" {
			return true
		}
	}
}

// lastAsked is when somebody connected last; zero if nobody did.
func (x *target) lastAsked() time.Time { return last(x, &x.asked) }

// lastAnswered is when the target answered 200 last; zero if it never did.
func (x *target) lastAnswered() time.Time { return last(x, &x.answered) }

func last(x *target, list *[]time.Time) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(*list) == 0 {
		return time.Time{}
	}
	return (*list)[len(*list)-1]
}

// count is how often somebody connected.
func (x *target) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.asked)
}

// untilAsked waits until somebody connects, and returns when that was.
func (x *target) untilAsked(limit time.Duration) time.Time {
	x.t.Helper()
	n := x.count()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(limit); x.count() == n; {
		select {
		case <-tick.C:
		case <-deadline:
			x.t.Fatalf("nobody asks port %d for %v", x.port, limit)
		}
	}
	return x.lastAsked()
}

// answer answers with a status and an empty body.
func answer(status int) behaviour {
	return func(x *target, c net.Conn) {
		if status == 200 {
			x.mu.Lock()
			x.answered = append(x.answered, time.Now())
			x.mu.Unlock()
		}
		fmt.Fprintf(c, "HTTP/1.1 %d Said\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
	}
}

// hang answers nothing until the peer has gone.
func hang(x *target, c net.Conn) {
	for buf := make([]byte, 1); ; {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

// keepAlive answers 200 to this request and to every later one on the
// connection, whatever the client said of it.
func keepAlive(x *target, c net.Conn) {
	for r := bufio.NewReader(c); ; {
		if _, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil || !readHead(r) {
			return
		}
	}
}

// varying answers 200 with another date, size and latency each time.
func varying() behaviour {
	var mu sync.Mutex
	n := 0
	return func(x *target, c net.Conn) {
		mu.Lock()
		n++
		turn := n
		mu.Unlock()
		wait := time.NewTimer(time.Duration(turn%7) * 100 * time.Millisecond)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-x.closed:
			return
		}
		x.mu.Lock()
		x.answered = append(x.answered, time.Now())
		x.mu.Unlock()
		date := time.Unix(int64(turn)*86400, 0).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
		body := strings.Repeat("x", turn)
		fmt.Fprintf(c, "HTTP/1.1 %d OK\r\nDate: %s\r\nContent-Length: %d\r\n\r\n%s", 200+turn%3, date, len(body), body)
	}
}

// answeredBefore is when the target answered 200 last before an instant.
func (x *target) answeredBefore(at time.Time) (latest time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range x.answered {
		if a.Before(at) {
			latest = a
		}
	}
	return latest
}
