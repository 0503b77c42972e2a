// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"io"
	"net"
	"time"
)

// CloseWrite ends the direction to the peer, which then reads io.EOF. The other
// direction goes on for as long as both sides like.
func (s *Stream) CloseWrite() error {
	if s.isClosed() {
		return net.ErrClosed
	}
	if s.session.ended() {
		return s.session.over()
	}
	s.mu.Lock()
	s.writeEnded = true
	s.mu.Unlock()
	notify(s.account.wake)
	s.writing <- struct{}{} // a writer that was woken must have left
	defer func() { <-s.writing }()
	// yamux reports no error: one of the connection shows itself in Read.
	return s.y.Close()
}

// Close ends both directions and returns at once. What was written arrives, and
// then the peer's Read returns io.EOF. A peer that goes on sending for more than
// a moment is reset; so is one that does not end its direction within a minute,
// or at once when 256 others are waited for already.
func (s *Stream) Close() error { return s.shut(closing) }

// Reset ends both directions and returns at once. What is under way may be lost
// and the peer gets ErrReset, so that it does not take the stream for complete.
func (s *Stream) Reset() error { return s.shut(resetting) }

// ending is how a stream is given up.
type ending byte

const (
	closing   ending = iota // our end now, a reset if the peer's does not come
	resetting               // a reset now
)

func (s *Stream) shut(how ending) error {
	s.mu.Lock()
	if s.isClosed() {
		s.mu.Unlock()
		return nil
	}
	close(s.gone)
	if s.quiet != nil {
		s.quiet.Stop()
	}
	s.mu.Unlock()
	if s.held {
		s.session.open.Add(-1)
	}
	s.expire()
	go s.depart(how)
	return nil
}

// depart ends the stream towards the peer and sees to it that both ends forget
// it. yamux forgets a stream when both directions have ended, or on a reset,
// and cannot send one: we do, to the peer and to our own.
func (s *Stream) depart(how ending) {
	if how == closing {
		s.writing <- struct{}{} // who was woken must have left
		<-s.writing
		s.reading <- struct{}{}
		defer func() { <-s.reading }()
		_ = s.y.Close()
	}
	if s.opened {
		<-s.session.slots
	}
	broken := how == resetting || !s.linger()
	acked := s.session.forget(s)
	if broken && !s.session.ended() {
		s.session.conn.reset(s.y.StreamID())
		if acked { // otherwise yamux holds its place until the peer knows of it
			s.session.conn.forget(s.y.StreamID())
		}
	}
}

// linger waits for the peer's end and reports whether it came. It is the reader
// meanwhile.
func (s *Stream) linger() bool {
	defer s.session.lingering.Add(-1)
	if s.session.lingering.Add(1) > maxLingering {
		return false
	}
	grace := time.Now().Add(lingerGrace)
	_ = s.y.SetReadDeadline(time.Now().Add(lingerMax))
	if s.session.woken() {
		return true
	}
	buf := make([]byte, 2<<10)
	for total := 0; ; {
		n, err := s.y.Read(buf)
		if err != nil {
			return err == io.EOF
		}
		if total += n; total > window || time.Now().After(grace) {
			return false
		}
	}
}
