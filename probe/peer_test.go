// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io"
	"net"
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

// listenBoth listens on one port of both loopback addresses.
func listenBoth(t testing.TB) (v4, v6 *net.TCPListener, port uint16) {
	t.Helper()
	for range 100 {
		v4 = listenOn(t, "127.0.0.1", 0)
		port = portOf(v4)
		if l, err := net.Listen("tcp", net.JoinHostPort("::1", portString(port))); err == nil {
			return v4, l.(*net.TCPListener), port
		}
		v4.Close()
	}
	t.Fatal("found no port that is free on both loopback addresses: this test needs 127.0.0.1 and ::1")
	return nil, nil, 0
}

// listen listens on 127.0.0.1 or on ::1, and keeps the port of the other from
// everybody else: connects to it are refused.
func listen(t testing.TB, address string) (*net.TCPListener, uint16) {
	t.Helper()
	for range 100 {
		l := listenOn(t, address, 0)
		if port := portOf(l); reserve(t, address != "127.0.0.1", port) != 0 {
			return l, port
		}
		l.Close()
	}
	t.Fatal("found no port that is free on both loopback addresses: this test needs 127.0.0.1 and ::1")
	return nil, 0
}

// reserve binds a port of 127.0.0.1 or of ::1, any if it is 0, without
// listening, until the test ends. It returns 0 if the port is taken.
func reserve(t testing.TB, v4 bool, port uint16) uint16 {
	t.Helper()
	fd, bound := bind(t, v4, port)
	if bound != 0 {
		t.Cleanup(func() { syscall.Close(fd) })
	}
	return bound
}

// bind returns a socket that is bound to a loopback address, and its port.
func bind(t testing.TB, v4 bool, port uint16) (int, uint16) {
	t.Helper()
	family, addr := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: int(port), Addr: loopback6.As16()})
	if v4 {
		family, addr = syscall.AF_INET, &syscall.SockaddrInet4{Port: int(port), Addr: loopback4.As4()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, addr); err != nil {
		syscall.Close(fd)
		return -1, 0
	}
	addr, err = syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	switch addr := addr.(type) {
	case *syscall.SockaddrInet4:
		port = uint16(addr.Port)
	case *syscall.SockaddrInet6:
		port = uint16(addr.Port)
	}
	return fd, port
}

func listenOn(t testing.TB, address string, port uint16) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, portString(port)))
	if err != nil {
		t.Fatal(err)
	}
	return l.(*net.TCPListener)
}

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

// freePort returns a port on which nothing listens, as long as the test runs.
func freePort(t testing.TB) uint16 {
	t.Helper()
	for range 100 {
		if port := reserve(t, true, 0); reserve(t, false, port) != 0 {
			return port
		}
	}
	t.Fatal("found no port that is free on both loopback addresses: this test needs 127.0.0.1 and ::1")
	return 0
}

// fullBacklog returns a port of 127.0.0.1 whose listener never accepts, and
// whose kernel answers no more connects. ::1 refuses them.
func fullBacklog(t testing.TB) uint16 {
	t.Helper()
	for range 100 {
		if port := fillBacklog(t, 0); reserve(t, false, port) != 0 {
			return port
		}
	}
	t.Fatal("found no port that is free on both loopback addresses: this test needs 127.0.0.1 and ::1")
	return 0
}

// fillBacklog does that to one port of 127.0.0.1, any if it is 0. It returns 0
// if the port is taken.
func fillBacklog(t testing.TB, port uint16) uint16 {
	t.Helper()
	fd, port := bind(t, true, port)
	if port == 0 {
		return 0
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	addr := &syscall.SockaddrInet4{Port: int(port), Addr: loopback4.As4()}
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
