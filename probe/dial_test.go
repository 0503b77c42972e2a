// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestDialOrder scripts what each dial gives, and wants to see the dials as
// address family and the end of its time in milliseconds after the start.
func TestDialOrder(t *testing.T) {
	l, _ := listen(t, "127.0.0.1")
	serve(t, l, hangs)
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	absent := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}
	full := &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	type dial struct {
		family, within int
	}
	for _, tt := range []struct {
		name   string
		script []error // nil connects
		want   []dial
		reason Reason
		addr   netip.Addr
	}{
		{"127.0.0.1 accepts", []error{nil}, []dial{{4, 300}}, OK, loopback4},
		{"::1 accepts", []error{refused, nil}, []dial{{4, 300}, {6, 1000}}, OK, loopback6},
		{"both refuse", []error{refused, refused}, []dial{{4, 300}, {6, 1000}}, Refused, netip.Addr{}},
		{"no IPv6", []error{refused, absent}, []dial{{4, 300}, {6, 1000}}, Refused, netip.Addr{}},
		{"no IPv4", []error{absent, nil}, []dial{{4, 300}, {6, 1000}}, OK, loopback6},
		{"::1 hangs", []error{refused, os.ErrDeadlineExceeded}, []dial{{4, 300}, {6, 1000}}, Timeout, netip.Addr{}},
		{"127.0.0.1 hangs, ::1 accepts", []error{os.ErrDeadlineExceeded, nil}, []dial{{4, 300}, {6, 600}}, OK, loopback6},
		{
			"127.0.0.1 hangs for a while",
			[]error{os.ErrDeadlineExceeded, refused, nil},
			[]dial{{4, 300}, {6, 600}, {4, 1000}},
			OK, loopback4,
		},
		{
			"127.0.0.1 hangs",
			[]error{os.ErrDeadlineExceeded, refused, os.ErrDeadlineExceeded},
			[]dial{{4, 300}, {6, 600}, {4, 1000}},
			Timeout,
			netip.Addr{},
		},
		{
			"both hang",
			[]error{os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
			[]dial{{4, 300}, {6, 600}, {4, 1000}},
			Timeout,
			netip.Addr{},
		},
		{
			"127.0.0.1 hangs, then refuses",
			[]error{os.ErrDeadlineExceeded, refused, refused},
			[]dial{{4, 300}, {6, 600}, {4, 1000}},
			Refused,
			netip.Addr{},
		},
		{"no descriptors", []error{full, full}, []dial{{4, 300}, {6, 1000}}, NoResources, netip.Addr{}},
		{"no descriptors on the way", []error{refused, full}, []dial{{4, 300}, {6, 1000}}, NoResources, netip.Addr{}},
		{"out of ports", []error{absent, refused}, []dial{{4, 300}, {6, 1000}}, NoResources, netip.Addr{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			var got []dial
			script := tt.script
			fake := func(ctx context.Context, addr netip.AddrPort, deadline time.Time) (*net.TCPConn, error) {
				family := 4
				if addr.Addr() == loopback6 {
					family = 6
				}
				got = append(got, dial{family, int(deadline.Sub(start).Milliseconds())})
				err := script[0]
				script = script[1:]
				if err != nil {
					return nil, err
				}
				return dialTCP(ctx, l.Addr().(*net.TCPAddr).AddrPort(), deadline)
			}
			conn, addr, reason := dialLoopback(t.Context(), fake, 8080, start)
			if conn != nil {
				defer conn.Close()
			}
			if reason != tt.reason || addr != tt.addr || (conn != nil) != (reason == OK) {
				t.Errorf("%v from %v, want %v from %v", reason, addr, tt.reason, tt.addr)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("dials %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSelfConnectionIsRefused(t *testing.T) {
	fake := func(context.Context, netip.AddrPort, time.Time) (*net.TCPConn, error) {
		// A socket bound to the port that it dials meets itself.
		fd, port := bind(t, true, 0)
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(port), Addr: loopback4.As4()}); err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), "")
		defer f.Close()
		conn, err := net.FileConn(f)
		if err != nil {
			return nil, err
		}
		return conn.(*net.TCPConn), nil
	}
	conn, _, reason := dialLoopback(t.Context(), fake, 1, time.Now())
	if conn != nil || reason != Refused {
		t.Errorf("%v, %v", conn, reason)
	}
}

// TestAddresses holds T02 on real sockets.
func TestAddresses(t *testing.T) {
	t.Parallel()
	serveBoth := func(t *testing.T, v4, v6 string) uint16 {
		l4, l6, port := listenBoth(t)
		serve(t, l4, says(v4))
		serve(t, l6, says(v6))
		return port
	}
	for _, tt := range []struct {
		name  string
		port  func(t *testing.T) uint16
		want  Reason
		addr  netip.Addr
		code  uint16
		takes time.Duration // at least, and less than 300 ms more
	}{
		{"nobody", func(t *testing.T) uint16 { return freePort(t) }, Refused, netip.Addr{}, 0, 0},
		{"::1 only", func(t *testing.T) uint16 {
			l, port := listen(t, "::1")
			serve(t, l, says("HTTP/1.1 206 ?\r\n\r\n"))
			return port
		}, OK, loopback6, 206, 0},
		{"both", func(t *testing.T) uint16 {
			return serveBoth(t, "HTTP/1.1 204 ?\r\n\r\n", "HTTP/1.1 206 ?\r\n\r\n")
		}, OK, loopback4, 204, 0},
		{"the first that accepts decides", func(t *testing.T) uint16 {
			return serveBoth(t, "HTTP/1.1 503 ?\r\n\r\n", "HTTP/1.1 206 ?\r\n\r\n")
		}, BadStatus, loopback4, 503, 0},
		{
			"hangs in the backlog", func(t *testing.T) uint16 { return fullBacklog(t) },
			Timeout,
			netip.Addr{},
			0, time.Second,
		},
		{"hangs in the backlog beside ::1", func(t *testing.T) uint16 {
			for range 100 {
				l := listenOn(t, "::1", 0)
				serve(t, l, says("HTTP/1.1 206 ?\r\n\r\n"))
				if port := fillBacklog(t, portOf(l)); port != 0 {
					return port
				}
			}
			return 0
		}, OK, loopback6, 206, hangBound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := undisturbed(t.Context(), Target{Port: tt.port(t), Path: "/"})
			if a.Reason != tt.want || a.Addr != tt.addr || a.Code != tt.code {
				t.Errorf("attempt = %+v, want %v %d from %v", a, tt.want, tt.code, tt.addr)
			}
			if a.Latency < tt.takes || a.Latency > tt.takes+hangBound {
				t.Errorf("took %v, want %v", a.Latency, tt.takes)
			}
		})
	}
}

func TestClassify(t *testing.T) {
	inConnect := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
	}
	for _, tt := range []struct {
		err  error
		v6   bool
		want Reason
	}{
		{io.EOF, false, Closed},
		{inConnect(syscall.ECONNREFUSED), false, Refused},
		{inConnect(syscall.ETIMEDOUT), false, Timeout},
		{inConnect(syscall.ECONNRESET), false, Reset},
		{inConnect(syscall.EPIPE), false, Reset},
		{inConnect(syscall.ECONNABORTED), false, Reset},
		{inConnect(syscall.EMFILE), false, NoResources},
		{inConnect(syscall.ENFILE), false, NoResources},
		{inConnect(syscall.ENOBUFS), false, NoResources},
		{inConnect(syscall.ENOMEM), false, NoResources},
		{inConnect(syscall.ENOSPC), false, NoResources},
		{inConnect(syscall.EAGAIN), false, NoResources},
		{inConnect(syscall.EADDRINUSE), true, NoResources},
		{inConnect(syscall.EADDRNOTAVAIL), false, NoResources},
		{inConnect(syscall.EADDRNOTAVAIL), true, Unreachable},
		{inConnect(syscall.EAFNOSUPPORT), true, Unreachable},
		{inConnect(syscall.ENETUNREACH), false, Unreachable},
		{inConnect(syscall.EPERM), false, Unreachable},
		{os.ErrDeadlineExceeded, false, Timeout},
		{context.DeadlineExceeded, false, Timeout},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, false, Timeout},
		{net.ErrClosed, false, Internal},
		{errors.New("?"), false, Internal},
	} {
		addr := loopback4
		if tt.v6 {
			addr = loopback6
		}
		if got := classify(tt.err, addr); got != tt.want {
			t.Errorf("%v (IPv6 %v): %v, want %v", tt.err, tt.v6, got, tt.want)
		}
	}
}
