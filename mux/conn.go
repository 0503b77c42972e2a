// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	maxKeptBuffer = 4 << 10                // greater buffers are pooled
	alertTimeout  = 500 * time.Millisecond // for TLS to say goodbye
)

// past is a deadline that is over.
func past() time.Time { return time.Unix(1, 0) }

// frameConn is what the multiplexer takes for its connection. Reading, it
// starts with the bytes that came early and checks each frame. Writing, it
// joins a frame's header and data into one write, and lets reset frames in
// between.
type frameConn struct {
	net.Conn
	early   []byte            // of the reader
	scanner scanner           // of the reader
	header  [frameHeader]byte // of the writer
	partial bool              // of the writer: the data of header is still to come
	bulk    int               // payload of the greatest frame
	pool    sync.Pool         // *[]byte of bulk and a header

	turn chan struct{} // holds a token while somebody writes to Conn
	once sync.Once

	// Both are called before the multiplexer hears of what happened, the first
	// one with the error of the connection, once.
	onFailure func(error)
	onClose   func()

	mu     sync.Mutex
	resets []uint32 // streams to be reset as soon as it is possible
	closed bool
	failed bool
}

func newFrameConn(conn net.Conn, early []byte, s *Session) *frameConn {
	return &frameConn{
		Conn: conn, early: early, scanner: scanner{odd: !s.agent}, bulk: bulk(s.agent), turn: make(chan struct{}, 1),
		onFailure: s.lost, onClose: s.wakeStreams,
	}
}

// Read is called by one goroutine.
func (c *frameConn) Read(p []byte) (int, error) {
	var n int
	var err error
	if len(c.early) > 0 {
		n = copy(p, c.early)
		if c.early = c.early[n:]; len(c.early) == 0 {
			c.early = nil
		}
	} else {
		n, err = c.Conn.Read(p)
	}
	if bad := c.scanner.scan(p[:n]); bad != nil {
		c.fail(bad)
		return 0, bad
	}
	if err != nil {
		c.fail(err)
	}
	return n, err
}

// Write is called by one goroutine, with a whole header or with the data that
// the previous header announced.
func (c *frameConn) Write(p []byte) (int, error) {
	if !c.partial {
		if len(p) == frameHeader && dataLength(p) > 0 {
			c.partial = true
			return copy(c.header[:], p), nil
		}
		return len(p), c.send(p)
	}
	c.partial = false
	buf, put := c.buffer(frameHeader + len(p))
	buf = append(append(buf, c.header[:]...), p...)
	err := c.send(buf)
	put()
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// buffer returns room for n bytes. A session at rest keeps none: small ones are
// garbage at once, great ones after the next collection.
func (c *frameConn) buffer(n int) (buf []byte, put func()) {
	if n <= maxKeptBuffer || n > c.bulk+frameHeader {
		return make([]byte, 0, n), func() {}
	}
	kept, ok := c.pool.Get().(*[]byte)
	if !ok {
		fresh := make([]byte, 0, c.bulk+frameHeader)
		kept = &fresh
	}
	return (*kept)[:0], func() { c.pool.Put(kept) }
}

func (c *frameConn) send(p []byte) error {
	c.turn <- struct{}{}
	err := writeFrame(c.Conn, p)
	if err == nil {
		err = c.sendResets()
	}
	<-c.turn
	if err != nil {
		c.fail(err)
		return err
	}
	c.flush()
	return nil
}

// reset tells the peer that a stream is over, between two frames. It waits for
// the connection only if nobody else does.
func (c *frameConn) reset(stream uint32) {
	c.mu.Lock()
	c.resets = append(c.resets, stream)
	c.mu.Unlock()
	c.flush()
}

// flush sends what reset has left, unless a writer is busy, who then does it.
func (c *frameConn) flush() {
	for c.pending() {
		select {
		case c.turn <- struct{}{}:
		default:
			return
		}
		err := c.sendResets()
		<-c.turn
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *frameConn) pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.resets) > 0 && !c.closed
}

// sendResets is called with the turn.
func (c *frameConn) sendResets() error {
	c.mu.Lock()
	resets := c.resets
	c.resets = nil
	c.mu.Unlock()
	var p []byte
	for _, stream := range resets {
		p = append(p, resetFrame(stream)...)
	}
	if p == nil {
		return nil
	}
	_, err := c.Conn.Write(p)
	return err
}

// fail reports the first error, unless it is a consequence of Close.
func (c *frameConn) fail(err error) {
	c.mu.Lock()
	first := !c.failed && !c.closed
	c.failed = true
	c.mu.Unlock()
	if first {
		c.onFailure(err)
	}
}

// Close wakes everybody who reads or writes. TLS gets a moment for its goodbye.
func (c *frameConn) Close() error {
	var err error
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.onClose()
		_ = c.Conn.SetReadDeadline(past())
		if secured, ok := c.Conn.(*tls.Conn); ok {
			timer := time.AfterFunc(alertTimeout, func() { _ = secured.NetConn().Close() })
			defer timer.Stop()
		}
		err = c.Conn.Close()
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
