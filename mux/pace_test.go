// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"net"
	"sync/atomic"
	"time"
)

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// slow is a connection that takes 250 bytes in a millisecond, and counts writes.
type slow struct {
	net.Conn
	writes atomic.Int64
}

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(time.Duration(len(p)) * 4 * time.Microsecond)
	s.writes.Add(1)
	return s.Conn.Write(p)
}

// slowPipe is a pipe whose first end is slow.
func slowPipe() (*slow, net.Conn) {
	a, g := net.Pipe()
	return &slow{Conn: a}, g
}
