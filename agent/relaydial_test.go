// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

func loopbacks(port uint16) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(loopback4, port), netip.AddrPortFrom(loopback6, port)}
}

// silent is a port of 127.0.0.1 that takes no more connections: its backlog is
// full and nobody accepts.
func silent(t *testing.T) uint16 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(name.(*unix.SockaddrInet4).Port)
	for {
		c, err := net.DialTimeout("tcp4", netip.AddrPortFrom(loopback4, port).String(), 100*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

func TestDialServiceFails(t *testing.T) {
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(closed.Addr().(*net.TCPAddr).Port)
	_ = closed.Close()
	if _, status := dialService(context.Background(), loopbacks(port)); status != mux.RelayRefused {
		t.Errorf("a closed port: %v", status)
	}
	start := time.Now()
	if _, status := dialService(context.Background(), loopbacks(silent(t))); status != mux.RelayTimeout {
		t.Errorf("a port that accepts nothing: %v", status)
	}
	if took := time.Since(start); took > mux.RelayAnswerTimeout {
		t.Errorf("the answer came after %v, and the gateway has gone", took)
	}
}

// An address that hangs does not keep one that answers for long.
func TestDialServiceOvertakesAHang(t *testing.T) {
	port := silent(t)
	l, err := net.Listen("tcp6", netip.AddrPortFrom(loopback6, port).String())
	if err != nil {
		t.Skipf("%v (a loopback with IPv6 is needed)", err)
	}
	defer func() { _ = l.Close() }()
	conn, status := dialService(context.Background(), loopbacks(port))
	if status != mux.RelayAccepted {
		t.Fatalf("dial: %v", status)
	}
	_ = conn.Close()
}

func TestWorst(t *testing.T) {
	r, o, u := mux.RelayRefused, mux.RelayTimeout, mux.RelayUnreachable
	for want, sets := range map[mux.RelayStatus][][]mux.RelayStatus{
		r: {{r}, {r, r}, {}},
		o: {{o}, {r, o}, {o, r}, {u, o}},
		u: {{u}, {r, u}, {u, r}},
	} {
		for _, set := range sets {
			if got := worst(slices.Clone(set)); got != want {
				t.Errorf("%v add up to %v, want %v", set, got, want)
			}
		}
	}
}
