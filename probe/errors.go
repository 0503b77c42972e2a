// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
)

// classify names the reason of an error that a socket to addr gave.
func classify(err error, addr netip.Addr) Reason {
	if errors.Is(err, io.EOF) {
		return Closed
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return Timeout
		}
		return Internal
	}
	switch errno {
	case syscall.ECONNREFUSED:
		return Refused
	case syscall.ETIMEDOUT:
		return Timeout
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return Reset
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC,
		syscall.EAGAIN, syscall.EADDRINUSE:
		return NoResources
	case syscall.EADDRNOTAVAIL:
		// Out of ports. For ::1 it is how a machine without IPv6 answers.
		if addr.Is4() {
			return NoResources
		}
		return Unreachable
	}
	return Unreachable
}

// neither returns the reason of an attempt to which neither loopback address
// answered, given that of each. What keeps this process from seeing outweighs
// what it saw on the other address; an address that does not exist says less
// than one that refuses.
func neither(v4, v6 Reason) Reason {
	for _, r := range [...]Reason{Internal, NoResources, Timeout, Reset, Refused} {
		if v4 == r || v6 == r {
			return r
		}
	}
	return Unreachable
}

// outcome returns what r says of a service.
func (r Reason) outcome() Outcome {
	switch r {
	case NoReason:
		return NoOutcome
	case OK:
		return Pass
	case NoResources, Late, Suspended, Internal:
		return Inconclusive
	}
	return Fail
}
