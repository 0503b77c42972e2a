// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Duplex is a connection whose directions end one by one: a Stream, a Relay, a
// TCP or unix socket, TLS.
type Duplex interface {
	net.Conn
	CloseWrite() error
}

// Patience bounds how long a joined pair may do nothing.
type Patience struct {
	// Stall is how long a reader may take nothing while there is something for
	// it.
	Stall time.Duration
	// Linger is how long the second direction may be silent after the first one
	// has ended.
	Linger time.Duration
}

// RelayPatience is the patience of relays.
func RelayPatience() Patience { return Patience{Stall: 5 * time.Minute, Linger: 2 * time.Minute} }

// lastMoment is for a stream's reader to take what came before a reset.
const lastMoment = 250 * time.Millisecond

// Join copies between a and b until both directions have ended, closes both,
// and returns nil. A direction's end is passed on by CloseWrite and leaves the
// other as it is. A reader that went away ends its direction; what it said
// before still travels the other way. Everything else ends the pair with an
// error, and both with a reset where they have one, so that no peer takes it for
// complete: a connection that broke, patience at its end, the end of ctx or of
// the session that one of them belongs to.
func Join(ctx context.Context, patience Patience, a, b Duplex) error {
	p := &pair{patience: patience}
	ended := make(chan error, 2)
	go func() { ended <- p.copy(b, a) }()
	go func() { ended <- p.copy(a, b) }()
	stop, overA, overB := ctx.Done(), sessionOf(a), sessionOf(b)
	var first error
	for n := 0; n < 2; {
		var err error
		select {
		case err = <-ended:
			n++
		case <-stop:
			err, stop = context.Cause(ctx), nil
		case <-overA:
			err, overA = ErrSessionClosed, nil
		case <-overB:
			err, overB = ErrSessionClosed, nil
		}
		if err != nil && first == nil {
			first = err
			Abort(a)
			Abort(b)
		}
	}
	if first == nil && p.cut.Load() {
		lastWords(a)
		lastWords(b)
	}
	_, _ = a.Close(), b.Close() // after an end of both sides nothing is lost
	return first
}

// sessionOf returns what is closed when the session of c has ended.
func sessionOf(c Duplex) <-chan struct{} {
	switch c := c.(type) {
	case *Stream:
		return c.session.done
	case *Relay:
		return c.session.done
	}
	return nil
}

// Abort ends a connection such that the peer does not take it for complete.
func Abort(c net.Conn) {
	switch c := c.(type) {
	case interface{ Reset() error }:
		_ = c.Reset()
	case *net.TCPConn:
		_ = c.SetLinger(0)
		_ = c.Close()
	default:
		_ = c.Close()
	}
}

// pair is two connections being joined.
type pair struct {
	patience  Patience
	lingering atomic.Bool // one direction has ended
	cut       atomic.Bool // one has ended because its reader had gone
}

// end takes note that the direction from src to dst has ended.
func (p *pair) end(dst Duplex) {
	p.lingering.Store(true)
	_ = dst.SetReadDeadline(time.Now().Add(p.patience.Linger))
}

// copy is one direction. It returns nil when that has ended in good order.
func (p *pair) copy(dst, src Duplex) error {
	var buf buffer
	defer buf.release()
	var extended time.Time // when the deadline for dst was set
	stall := p.patience.Stall
	for {
		if p.lingering.Load() {
			_ = src.SetReadDeadline(time.Now().Add(p.patience.Linger))
		}
		into := buf.next()
		n, err := src.Read(into[frameHeader:])
		if n > 0 {
			if now := time.Now(); now.Sub(extended) > stall/8 {
				extended = now
				_ = dst.SetWriteDeadline(now.Add(stall))
			}
			if err := write(dst, into[:frameHeader+n]); err != nil {
				return p.readerGone(dst, err)
			}
			buf.took(n)
		}
		switch {
		case err == io.EOF:
			// An error concerns a reader that has gone, or shows itself on reading.
			_ = dst.CloseWrite()
			p.end(dst)
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded): // silent for long: no word is under way
			return err
		case err != nil:
			lastWords(dst)
			return err
		}
	}
}

// write writes what is in buf behind room for the header of a frame.
func write(dst Duplex, buf []byte) (err error) {
	if framed, ok := dst.(interface{ writeInPlace([]byte) (int, error) }); ok {
		_, err = framed.writeInPlace(buf)
	} else {
		_, err = dst.Write(buf[frameHeader:])
	}
	return err
}

// readerGone tells a reader that is alive and takes nothing, which breaks the
// pair, from one that went: it may have said something before.
func (p *pair) readerGone(dst Duplex, err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, ErrSessionClosed) {
		return err
	}
	p.cut.Store(true)
	p.end(dst)
	return nil
}

// lastWords gives the peer of a stream a moment to read what was written, since
// a reset overtakes that: a server that refuses an upload sends an answer and
// resets the connection. So does the end of a stream on which the peer goes on
// sending.
func lastWords(dst Duplex) {
	s, ok := dst.(*Stream)
	if !ok {
		return
	}
	timer := time.NewTimer(lastMoment)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.session.done:
	case <-s.gone:
	}
}
