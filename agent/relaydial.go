// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

const (
	// dialTimeout bounds all dials of a relay together. The gateway waits for
	// the answer a little longer.
	dialTimeout = time.Second
	// dialPatience is how long an address that hangs keeps the next one waiting.
	dialPatience = 300 * time.Millisecond
)

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// addresses returns where a service may be, in the order to try: first the
// loopback address that the last probe saw answering.
func (r *relays) addresses(name string, port uint16) []netip.AddrPort {
	order := []netip.AddrPort{netip.AddrPortFrom(loopback4, port), netip.AddrPortFrom(loopback6, port)}
	for _, e := range r.tracker.Snapshot().Entries {
		if e.Service.Name == name && e.Service.Target.Port == port && e.Verdict.Latest.Addr == loopback6 {
			slices.Reverse(order)
		}
	}
	return order
}

// dialService connects to the first address that accepts.
func dialService(ctx context.Context, addrs []netip.AddrPort) (*net.TCPConn, mux.RelayStatus) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var all []mux.RelayStatus
	// One that hung gets the time that the others leave.
	for i, addr := range append(addrs, addrs...) {
		second := i >= len(addrs)
		if second && all[i-len(addrs)] != mux.RelayTimeout {
			continue
		}
		conn, status := dialAddr(ctx, addr, !second && i < len(addrs)-1)
		if status == mux.RelayAccepted {
			return conn, status
		}
		all = append(all, status)
	}
	return nil, worst(all)
}

func dialAddr(ctx context.Context, addr netip.AddrPort, brief bool) (*net.TCPConn, mux.RelayStatus) {
	if brief {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialPatience)
		defer cancel()
	}
	network := "tcp4"
	if addr.Addr().Is6() {
		network = "tcp6"
	}
	conn, err := (&net.Dialer{KeepAlive: -1}).DialTCP(ctx, network, netip.AddrPort{}, addr)
	if err == nil && sameAddr(conn.LocalAddr(), conn.RemoteAddr()) {
		// Nobody listens: the kernel gave this socket the port that it dialled.
		mux.Abort(conn)
		err = syscall.ECONNREFUSED
	}
	if err == nil {
		return conn, mux.RelayAccepted
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, mux.RelayRefused
	case isNet && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return nil, mux.RelayTimeout
	case addr.Addr() == loopback6 && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)):
		return nil, mux.RelayRefused // there is no IPv6, and so nobody listens there
	}
	return nil, mux.RelayUnreachable
}

func sameAddr(a, b net.Addr) bool { return a.String() == b.String() }

// worst is what failed dials add up to.
func worst(all []mux.RelayStatus) mux.RelayStatus {
	for _, s := range []mux.RelayStatus{mux.RelayTimeout, mux.RelayUnreachable} {
		if slices.Contains(all, s) {
			return s
		}
	}
	return mux.RelayRefused
}
