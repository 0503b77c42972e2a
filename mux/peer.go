// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"fmt"
	"time"
)

// What the peer's frames do to a stream. The receiver calls these, so they wait
// for nothing.

// maxCredit keeps a peer that gives room without end from overflowing it.
const maxCredit = 1 << 30

// grow takes note of room that the peer gives.
func (s *Stream) grow(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.credit = min(s.credit+n, maxCredit)
	s.mu.Unlock()
	notify(s.wake)
}

// announced takes note that n bytes come, and says whether anybody wants them.
func (s *Stream) announced(n int) (wanted bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state.peerEnded:
		return false, fmt.Errorf("%w: data after the end of a stream", ErrProtocol)
	case !s.window.admit(n):
		return false, fmt.Errorf("%w: more than a window", ErrProtocol)
	}
	return !s.state.closed, nil
}

// deliver gives bytes to the reader: p, to be copied, or a block of their own.
func (s *Stream) deliver(p []byte, block *[]byte) {
	s.mu.Lock()
	switch {
	case s.state.closed || s.state.forgotten:
		s.mu.Unlock()
		if block != nil {
			p = *block
			defer freeBlock(block)
		}
		s.discarded(len(p))
		return
	case block != nil:
		s.inbox.put(block)
	default:
		s.inbox.fill(p)
	}
	s.readable.Signal()
	s.mu.Unlock()
}

// discarded takes note of n bytes that came after Close. A peer that goes on
// sending is reset.
func (s *Stream) discarded(n int) {
	s.mu.Lock()
	s.after += n
	late := !s.endedAt.IsZero() && time.Since(s.endedAt) > lingerGrace
	growth := s.taken(n)
	over := s.state.forgotten
	stop := !over && (s.after > s.window.size || late)
	s.mu.Unlock()
	switch {
	case stop && s.forget():
		s.session.out.answer(s.id, flagRST, 0)
	case growth > 0 && !over:
		s.session.out.answer(s.id, 0, growth)
	}
}

// peerEnd takes note of the peer's end.
func (s *Stream) peerEnd() error {
	s.mu.Lock()
	if s.state.peerEnded {
		s.mu.Unlock()
		return fmt.Errorf("%w: a stream ended twice", ErrProtocol)
	}
	s.state.peerEnded = true
	over := s.state.ended
	s.readable.Broadcast()
	s.mu.Unlock()
	if over {
		s.forget()
	}
	return nil
}

// peerReset takes note that the peer has given the stream up. What it sent
// before is lost.
func (s *Stream) peerReset() {
	s.mu.Lock()
	s.state.reset = true
	s.inbox.drop()
	s.wakeUp()
	s.mu.Unlock()
	s.forget()
}

// sessionOver takes note that nothing will come any more.
func (s *Stream) sessionOver() {
	s.mu.Lock()
	s.state.lost = true
	s.wakeUp()
	s.mu.Unlock()
	s.forget()
}
