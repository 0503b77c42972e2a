// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package muxtest

import (
	"net"
	"os"
	"sync"
	"time"
)

// Conn is a connection that fails on demand, as a network does: it stalls
// without an error, or it is cut. Deadlines and Close keep working meanwhile.
type Conn struct {
	net.Conn
	kept []byte // of the reader: what came while it was stalled

	mu      sync.Mutex
	stalled bool
	closed  bool
	read    time.Time // deadlines
	write   time.Time
	changed chan struct{} // closed and replaced at each change of the above
}

// Faulty wraps a connection, which works until told otherwise.
func Faulty(conn net.Conn) *Conn {
	return &Conn{Conn: conn, changed: make(chan struct{})}
}

// Stall lets nothing through, in either direction, until Resume.
func (c *Conn) Stall() { c.change(func() { c.stalled = true }) }

// Resume ends a Stall. Nothing was lost.
func (c *Conn) Resume() { c.change(func() { c.stalled = false }) }

// Cut ends the connection at once, without any goodbye of the layers above it.
func (c *Conn) Cut() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (c *Conn) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// pass waits while the connection is stalled.
func (c *Conn) pass(deadline *time.Time) error {
	for {
		c.mu.Lock()
		stalled, closed, changed, until := c.stalled, c.closed, c.changed, *deadline
		c.mu.Unlock()
		switch {
		case closed:
			return net.ErrClosed
		case !stalled:
			return nil
		}
		var expired <-chan time.Time
		if !until.IsZero() {
			timer := time.NewTimer(time.Until(until))
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-changed:
		case <-expired:
			return os.ErrDeadlineExceeded
		}
	}
}

// Read implements net.Conn. Bytes that arrive while the connection is stalled
// are held back until Resume.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.pass(&c.read); err != nil {
		return 0, err
	}
	if len(c.kept) > 0 {
		n := copy(p, c.kept)
		c.kept = c.kept[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if held := c.pass(&c.read); held != nil {
		c.kept = append(c.kept, p[:n]...)
		return 0, held
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.pass(&c.write); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.change(func() { c.closed = true })
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.change(func() { c.read, c.write = t, t })
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.change(func() { c.read = t })
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.change(func() { c.write = t })
	return c.Conn.SetWriteDeadline(t)
}
