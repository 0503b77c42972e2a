// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	maxKeptBuffer = 4 << 10                // greater buffers are pooled
	maxSmall      = 64 << 10               // bytes of frames without data that wait
	alertTimeout  = 500 * time.Millisecond // for TLS to say goodbye
)

// past is a deadline that is over.
func past() time.Time { return time.Unix(1, 0) }

// frameConn is what the multiplexer takes for its connection. Reading, it
// starts with the bytes that came early and checks each frame. Writing, it
// joins a frame's header and data into one write. Frames without data (streams
// opened, accepted, ended, reset, windows) wait for nobody and go before others:
// who writes takes them along. Besides, it tells what frames say of streams, and
// makes the multiplexer forget those that were given up.
type frameConn struct {
	net.Conn
	early   []byte            // of the reader
	scanner scanner           // of the reader
	header  [frameHeader]byte // of the writer
	partial bool              // of the writer: the data of header is still to come
	pool    sync.Pool         // *[]byte of maxFrame

	turn chan struct{} // holds a token while somebody writes to Conn
	slow *time.Timer   // of who has the turn: ends the session
	once sync.Once

	// Both are called before the multiplexer hears of what happened, the first
	// one with the error of the connection, once.
	onFailure func(error)
	onClose   func()
	// sending is told of the flags in the multiplexer's own frames.
	sending func(stream uint32, flags uint16)

	mu     sync.Mutex
	small  []byte // frames without data, to be sent as soon as it is possible
	inward []byte // frames for our multiplexer
	closed bool
	failed bool
}

func newFrameConn(conn net.Conn, early []byte, s *Session) *frameConn {
	c := &frameConn{
		Conn: conn, early: early, turn: make(chan struct{}, 1),
		scanner:   scanner{odd: !s.agent, tell: s.received},
		slow:      time.AfterFunc(writeTimeout, func() { s.end(ErrStalled) }),
		onFailure: s.lost, onClose: s.wakeStreams, sending: s.sending,
	}
	c.slow.Stop()
	return c
}

// Read is called by one goroutine.
func (c *frameConn) Read(p []byte) (int, error) {
	n, p := c.own(p)
	if n > 0 {
		return n, nil
	}
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

// own begins p with frames that are not the peer's, between two of the peer's. In
// the middle of one it returns as much of p as the rest of that may fill.
func (c *frameConn) own(p []byte) (n int, room []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inward) == 0 {
		return 0, p
	}
	if missing := c.scanner.missing(); missing > 0 {
		return 0, p[:min(len(p), missing)]
	}
	n = copy(p, c.inward)
	if c.inward = c.inward[n:]; len(c.inward) == 0 {
		c.inward = nil
	}
	return n, p
}

// forget makes our multiplexer forget a stream, as if the peer had reset it: the
// peer need not, and may go on sending. It does so before it reads on.
func (c *frameConn) forget(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inward = append(c.inward, resetFrame(stream)...)
}

// Write is called by one goroutine, with a whole header or with the data that
// the previous header announced.
func (c *frameConn) Write(p []byte) (int, error) {
	if !c.partial {
		if len(p) == frameHeader && dataLength(p) > 0 {
			c.partial = true
			return copy(c.header[:], p), nil
		}
		c.sending(binary.BigEndian.Uint32(p[4:]), binary.BigEndian.Uint16(p[2:]))
		if !c.queue(p) {
			return len(p), c.send(p)
		}
		c.flush()
		return len(p), nil
	}
	c.partial = false
	if err := c.frame(c.header, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// data sends a data frame past the multiplexer. It may be called by many.
func (c *frameConn) data(stream uint32, p []byte) error {
	var header [frameHeader]byte
	putDataHeader(header[:], stream, len(p))
	return c.frame(header, p)
}

func (c *frameConn) frame(header [frameHeader]byte, p []byte) error {
	buf, put := c.buffer(frameHeader + len(p))
	defer put()
	return c.send(append(append(buf, header[:]...), p...))
}

// buffer returns room for n bytes. A session at rest keeps none: small ones are
// garbage at once, great ones after the next collection.
func (c *frameConn) buffer(n int) (buf []byte, put func()) {
	if n <= maxKeptBuffer || n > maxFrame {
		return make([]byte, 0, n), func() {}
	}
	kept, ok := c.pool.Get().(*[]byte)
	if !ok {
		fresh := make([]byte, 0, maxFrame)
		kept = &fresh
	}
	return (*kept)[:0], func() { c.pool.Put(kept) }
}

func (c *frameConn) send(p []byte) error {
	c.turn <- struct{}{}
	err := c.write(p)
	<-c.turn
	if err != nil {
		c.fail(err)
		return err
	}
	c.flush()
	return nil
}

// write sends the frames without data that wait, then p. It is called with the
// turn.
func (c *frameConn) write(p []byte) error {
	c.slow.Reset(writeTimeout)
	defer c.slow.Stop()
	c.mu.Lock()
	small := c.small
	c.small = nil
	c.mu.Unlock()
	if small != nil {
		if _, err := c.Conn.Write(small); err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	return writeFrame(c.Conn, p)
}

// queue takes a frame without data, unless there are too many.
func (c *frameConn) queue(p []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.small)+len(p) > maxSmall {
		return false
	}
	c.small = append(c.small, p...)
	return true
}

// reset tells the peer that a stream is over. It waits for the connection only
// if nobody else does.
func (c *frameConn) reset(stream uint32) {
	c.mu.Lock()
	c.small = append(c.small, resetFrame(stream)...)
	c.mu.Unlock()
	c.flush()
}

// flush sends the frames without data, unless a writer is busy, who then does
// it.
func (c *frameConn) flush() {
	for c.pending() {
		select {
		case c.turn <- struct{}{}:
		default:
			return
		}
		err := c.write(nil)
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
	return len(c.small) > 0 && !c.closed
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
