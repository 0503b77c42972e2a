// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"net"
	"sync"
)

// LimitHandshakes wraps a listener of plain connections on which TLS is spoken,
// so that at most inFlight handshakes are computed at once (0 means 64): after
// a restart a whole fleet comes back, and the sessions that are there already
// must get their share of the processor. Only computing counts: from the moment
// that bytes of a connection are there until it waits for more. A peer that
// says nothing, or stops in the middle, takes nobody's place.
func LimitHandshakes(l net.Listener, inFlight int) net.Listener {
	if inFlight <= 0 {
		inFlight = handshakeSlots
	}
	return &gateListener{Listener: l, gate: make(chan struct{}, inFlight)}
}

type gateListener struct {
	net.Listener
	gate chan struct{}
}

func (l *gateListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gateConn{Conn: &batchConn{Conn: conn}, gate: l.gate}, nil
}

// gateConn holds a place of the gate from a Read that brought bytes to the next
// Read, until the server has answered: that answer is the costly part.
type gateConn struct {
	net.Conn
	mu       sync.Mutex
	gate     chan struct{} // nil once the handshake needs it no more
	held     bool
	answered bool
}

// NetConn returns the connection beneath.
func (c *gateConn) NetConn() net.Conn { return c.Conn }

func (c *gateConn) Read(p []byte) (int, error) {
	gate := c.leave(false)
	n, err := c.Conn.Read(p)
	if gate != nil && n > 0 {
		gate <- struct{}{}
		c.enter(gate)
	}
	return n, err
}

func (c *gateConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.answered = true
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Close gives a place back.
func (c *gateConn) Close() error {
	c.leave(true)
	return c.Conn.Close()
}

// enter records a place, or gives it back if the connection was closed since.
func (c *gateConn) enter(gate chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate == nil {
		<-gate
		return
	}
	c.held = true
}

// leave gives back the place, if there is one, and returns the gate if the next
// bytes have to pass it.
func (c *gateConn) leave(closing bool) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		<-c.gate
		c.held = false
	}
	if c.answered || closing {
		c.gate = nil
	}
	return c.gate
}
