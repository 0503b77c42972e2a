// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// peer is one way of behaving towards a connection. It may block until the
// other side hangs up, and is closed when it returns.
type peer func(c *net.TCPConn)

// serve runs p for each connection to l, until the test ends.
func serve(t testing.TB, l *net.TCPListener, p peer) {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { l.Close() })
	wg.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				p(c)
			})
		}
	})
}

// listen listens on 127.0.0.1 or on ::1, on a port that is free on both.
func listen(t testing.TB, address string) (*net.TCPListener, uint16) {
	t.Helper()
	for range 100 {
		l := listenOn(t, address, 0)
		port := portOf(l)
		other := "127.0.0.1"
		if address == other {
			other = "::1"
		}
		if o, err := net.Listen("tcp", net.JoinHostPort(other, strconv.Itoa(int(port)))); err == nil {
			o.Close()
			return l, port
		}
		l.Close()
	}
	t.Fatal("found no port that is free on both loopback addresses: this test needs 127.0.0.1 and ::1")
	return nil, 0
}

func listenOn(t testing.TB, address string, port uint16) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
	if err != nil {
		t.Fatal(err)
	}
	return l.(*net.TCPListener)
}

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

// freePort returns a port on which nothing listens.
func freePort(t testing.TB) uint16 {
	t.Helper()
	l, port := listen(t, "127.0.0.1")
	l.Close()
	return port
}

// fullBacklog returns a port of 127.0.0.1 whose listener never accepts, and
// whose kernel answers no more connects.
func fullBacklog(t testing.TB) uint16 {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	port := freePort(t)
	addr := &syscall.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(fd, addr); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	// One more than the backlog fits; what comes after that waits unanswered.
	for range 3 {
		c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(c) })
		if err := syscall.Connect(c, addr); err != nil && err != syscall.EINPROGRESS {
			t.Fatal(err)
		}
	}
	return port
}

// waitHangUp returns when the other side has hung up.
func waitHangUp(c *net.TCPConn) { io.Copy(io.Discard, c) }

// readRequest reads up to the end of a request's header section.
func readRequest(c *net.TCPConn) string {
	buf := make([]byte, 0, 4096)
	for {
		n, err := c.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil || len(buf) == cap(buf) || len(buf) >= 4 && string(buf[len(buf)-4:]) == "\r\n\r\n" {
			return string(buf)
		}
	}
}

// says reads the request, says text and hangs up.
func says(text string) peer {
	return func(c *net.TCPConn) {
		readRequest(c)
		io.WriteString(c, text)
	}
}

// repeats reads the request, says text, and then again for ever.
func repeats(text, again string) peer {
	return func(c *net.TCPConn) {
		c.SetWriteBuffer(8 << 10) // so that for ever is not megabytes ahead
		readRequest(c)
		io.WriteString(c, text)
		for piece := []byte(again); ; {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	}
}

// hangs accepts and says nothing.
func hangs(c *net.TCPConn) { waitHangUp(c) }

// resets answers with a reset.
func resets(c *net.TCPConn) {
	readRequest(c)
	c.SetLinger(0)
}
