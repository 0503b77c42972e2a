// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"net"
	"syscall"
)

const (
	tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT, which package syscall lacks
	notSentBytes    = 16 << 10
)

// setNotSent keeps the kernel from queueing more than it can soon send: what
// waits there can no longer be overtaken by a report. Failure costs latency
// only and is ignored.
func setNotSent(conn *net.TCPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, notSentBytes)
	})
}
