// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Loopback addresses, in the order in which they are tried.
var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.AddrFrom16([16]byte{15: 1})
)

// hangBound is how long a dial that hangs keeps the other address waiting.
const hangBound = 300 * time.Millisecond

// dialFunc connects to addr before deadline.
type dialFunc func(ctx context.Context, addr netip.AddrPort, deadline time.Time) (*net.TCPConn, error)

// dialLoopback connects to port on 127.0.0.1 or on ::1, whichever accepts
// first, and returns the address that did, or the reason why neither did.
// Both share the time from start to start+AttemptTimeout. An address that fails
// makes way at once; 127.0.0.1 hanging makes way for a while and gets the rest.
func dialLoopback(ctx context.Context, dial dialFunc, port uint16, start time.Time) (*net.TCPConn, netip.Addr, Reason) {
	try := func(addr netip.Addr, within time.Duration) (*net.TCPConn, Reason) {
		conn, err := dial(ctx, netip.AddrPortFrom(addr, port), start.Add(within))
		if err != nil {
			return nil, classify(err, addr)
		}
		if isSelf(conn) {
			// The kernel gave this socket the very port that it dialled, which
			// proves that nobody listens there. Closing it must not leave that
			// port in TIME_WAIT, for the service could not bind it then.
			conn.SetLinger(0)
			conn.Close()
			return nil, Refused
		}
		return conn, OK
	}
	conn, v4 := try(loopback4, hangBound)
	if v4 == OK {
		return conn, loopback4, OK
	}
	within := AttemptTimeout
	if v4 == Timeout {
		within = 2 * hangBound
	}
	conn, v6 := try(loopback6, within)
	if v6 == OK {
		return conn, loopback6, OK
	}
	if v4 == Timeout {
		if conn, v4 = try(loopback4, AttemptTimeout); v4 == OK {
			return conn, loopback4, OK
		}
	}
	return nil, netip.Addr{}, neither(v4, v6)
}

// isSelf reports whether conn is connected to itself.
func isSelf(conn *net.TCPConn) bool {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	remote, okRemote := conn.RemoteAddr().(*net.TCPAddr)
	return ok && okRemote && local.Port == remote.Port && local.IP.Equal(remote.IP)
}

// until is a context with an earlier deadline that costs no timer: the net
// package hands the deadline to the poller.
type until struct {
	context.Context
	deadline time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.deadline, true }

// dialTCP is the dialFunc of sockets.
func dialTCP(ctx context.Context, addr netip.AddrPort, deadline time.Time) (*net.TCPConn, error) {
	network := "tcp4"
	if addr.Addr().Is6() {
		network = "tcp6"
	}
	d := net.Dialer{KeepAlive: -1}
	return d.DialTCP(until{ctx, deadline}, network, netip.AddrPort{}, addr)
}
