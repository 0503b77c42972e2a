// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"crypto/tls"
	"net"
	"sync"
)

// batchConn is what TLS writes to, record by record of at most 16 KiB. The
// records of a great frame are gathered and written at once: one system call,
// and one wake-up at the other end, instead of four.
type batchConn struct {
	net.Conn
	pool sync.Pool // *[]byte

	mu        sync.Mutex
	gathering *[]byte // nil: what is written goes out at once
}

// NetConn returns the connection beneath.
func (b *batchConn) NetConn() net.Conn { return b.Conn }

// Write is called by TLS, for a frame or on its own account.
func (b *batchConn) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gathering == nil {
		return b.Conn.Write(p)
	}
	*b.gathering = append(*b.gathering, p...)
	return len(p), nil
}

// writeFrame writes a frame to a connection; over TLS that writes to a batchConn
// all its records at once.
func writeFrame(conn net.Conn, p []byte) error {
	if secured, ok := conn.(*tls.Conn); ok && len(p) > maxRecord {
		if b := batchOf(secured.NetConn()); b != nil {
			return b.write(secured, p)
		}
	}
	_, err := conn.Write(p)
	return err
}

// batchOf returns the batchConn that a connection ends in, or nil.
func batchOf(conn net.Conn) *batchConn {
	if gate, ok := conn.(*gateConn); ok {
		conn = gate.NetConn()
	}
	b, _ := conn.(*batchConn)
	return b
}

// write is called by one goroutine at a time. What TLS has to say meanwhile on
// its own account keeps its place among the records.
func (b *batchConn) write(secured *tls.Conn, p []byte) error {
	buf, ok := b.pool.Get().(*[]byte)
	if !ok {
		fresh := make([]byte, 0, len(p)+len(p)/64)
		buf = &fresh
	}
	defer b.pool.Put(buf)
	*buf = (*buf)[:0]
	b.mu.Lock()
	b.gathering = buf
	b.mu.Unlock()
	_, err := secured.Write(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gathering = nil
	if _, failed := b.Conn.Write(*buf); err == nil {
		err = failed
	}
	return err
}
