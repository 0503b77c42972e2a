// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import "net"

// tune sets the socket options of a TCP connection, also of one that is wrapped
// in TLS or by a listener. Other connections are left as they are.
func tune(conn net.Conn) {
	for {
		switch c := conn.(type) {
		case *net.TCPConn:
			_ = c.SetNoDelay(true)
			setNotSent(c)
			return
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return
		}
	}
}
