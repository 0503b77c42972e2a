// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards connections, and does to their bytes what a bad network does:
// it keeps them back, delays them, cuts the connection or leaves it half open.
// Out is from the one who dialled.
type Proxy struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	gates    map[Direction]*gate
	ctx      context.Context
	wg       sync.WaitGroup

	mu      sync.Mutex
	delay   time.Duration
	refuse  bool
	conns   map[net.Conn]bool
	dialled int
}

// NewProxy forwards what connects to l, which it owns, to where dial leads.
func NewProxy(t testing.TB, l net.Listener, dial func(context.Context) (net.Conn, error)) *Proxy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{listener: l, dial: dial, ctx: ctx, conns: map[net.Conn]bool{}, gates: map[Direction]*gate{Out: newGate(), In: newGate()}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		cancel()
		l.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hold keeps the bytes of a direction back, and the end of the stream too: both
// sides go on believing that they are connected, also of connections that are
// made from now on.
func (p *Proxy) Hold(d Direction) { p.each(d, (*gate).close) }

// Release lets what Hold has kept back flow, and all that follows.
func (p *Proxy) Release(d Direction) { p.each(d, (*gate).open) }

func (p *Proxy) each(d Direction, f func(*gate)) {
	for direction, g := range p.gates {
		if d&direction != 0 {
			f(g)
		}
	}
}

// Delay makes every byte that comes from now on wait.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut resets all connections at once. New ones are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
}

// Refuse makes the proxy reset new connections, or stop doing so.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = yes
}

// Dialled returns how many connections were made.
func (p *Proxy) Dialled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialled
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.dialled++
		refuse := p.refuse
		p.mu.Unlock()
		if refuse {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
			continue
		}
		p.wg.Go(func() { p.forward(c) })
	}
}

// forward serves one connection. It ends when both directions have, or when the
// connection is cut.
func (p *Proxy) forward(near net.Conn) {
	defer p.forget(near)
	p.remember(near)
	far, err := p.dial(p.ctx)
	if err != nil {
		return
	}
	defer p.forget(far)
	p.remember(far)
	var wg sync.WaitGroup
	wg.Go(func() { p.pump(near, far, p.gates[Out]) })
	wg.Go(func() { p.pump(far, near, p.gates[In]) })
	wg.Wait()
}

func (p *Proxy) remember(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	if p.ctx.Err() != nil {
		c.Close()
	}
}

func (p *Proxy) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// chunk is what was read at once.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pump moves bytes of one direction until it ends. What was read is kept for
// as long as it takes.
func (p *Proxy) pump(from, to net.Conn, g *gate) {
	chunks := make(chan chunk, 1<<16)
	p.wg.Go(func() {
		defer close(chunks)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			p.mu.Lock()
			due := time.Now().Add(p.delay)
			p.mu.Unlock()
			if n > 0 {
				chunks <- chunk{buf[:n], due}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range chunks {
		if !p.wait(g, c.due) {
			continue
		}
		if _, err := to.Write(c.bytes); err != nil {
			from.Close()
		}
	}
	if p.wait(g, time.Time{}) {
		if tcp, ok := to.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
	}
}

// wait returns when the gate is open and it is time; false if the test is over.
func (p *Proxy) wait(g *gate, due time.Time) bool {
	if !g.wait(p.ctx) {
		return false
	}
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return g.wait(p.ctx)
	case <-p.ctx.Done():
		return false
	}
}

// gate is open or closed.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate is open
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		close(g.opened)
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		g.opened = make(chan struct{})
	}
}

// wait returns when the gate is open; false if ctx ends before.
func (g *gate) wait(ctx context.Context) bool {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
