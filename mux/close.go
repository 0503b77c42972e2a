// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"net"
	"time"
)

// CloseWrite ends the direction to the peer, which then reads io.EOF. The other
// direction goes on for as long as both sides like.
func (s *Stream) CloseWrite() error {
	s.mu.Lock()
	if s.state.closed {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.state.writeEnded = true
	s.mu.Unlock()
	if s.session.ended() {
		return s.session.over()
	}
	s.end()
	return nil
}

// end sends our end, once, behind what was written.
func (s *Stream) end() {
	notify(s.wake)
	s.writing <- struct{}{} // who writes must have left
	defer func() { <-s.writing }()
	s.mu.Lock()
	if s.state.ended || s.state.reset || s.state.forgotten {
		s.mu.Unlock()
		return
	}
	s.state.ended = true
	over := s.state.peerEnded
	s.mu.Unlock()
	s.session.out.tell(s.id, flagFIN, 0)
	if over {
		s.forget()
	}
}

// Close ends both directions and returns at once. What was written arrives, and
// then the peer's Read returns io.EOF. A peer that goes on sending for more than
// a moment is reset; so is one that does not end its direction within a minute,
// or at once when 256 others are waited for already.
func (s *Stream) Close() error {
	if s.shut() {
		go func() {
			s.end()
			s.leave()
			s.awaitEnd()
		}()
	}
	return nil
}

// Reset ends both directions and returns at once. What is under way may be lost
// and the peer gets ErrReset, so that it does not take the stream for complete.
func (s *Stream) Reset() error {
	if s.shut() {
		go func() {
			s.leave()
			s.breakOff()
		}()
	}
	return nil
}

// shut makes the stream useless to its holder. It reports whether it was not
// before.
func (s *Stream) shut() bool {
	s.mu.Lock()
	if s.state.closed {
		s.mu.Unlock()
		return false
	}
	s.state.closed = true
	close(s.gone)
	s.after = s.inbox.drop()
	if s.readTimer != nil {
		s.readTimer.Stop()
	}
	s.wakeUp()
	s.mu.Unlock()
	if s.held {
		s.session.open.Add(-1)
	}
	return true
}

// leave gives the slot of Open back.
func (s *Stream) leave() {
	if s.opened {
		<-s.session.slots
	}
}

// awaitEnd keeps the stream, after Close, until the peer has ended it too.
func (s *Stream) awaitEnd() {
	s.mu.Lock()
	if s.state.forgotten {
		s.mu.Unlock()
		return
	}
	s.endedAt = time.Now()
	growth := s.taken(s.after)
	wait := s.session.lingering.Add(1) <= maxLingering
	if wait {
		s.linger = time.AfterFunc(lingerMax, s.breakOff)
	}
	s.mu.Unlock()
	switch {
	case !wait:
		s.session.lingering.Add(-1)
		s.breakOff()
	case growth > 0:
		s.session.out.tell(s.id, 0, growth)
	}
}

// breakOff forgets the stream and tells the peer, unless it is over anyway.
func (s *Stream) breakOff() {
	if s.forget() {
		s.session.out.tell(s.id, flagRST, 0)
	}
}

// forget makes the session forget the stream: the peer's frames of it are
// discarded from now on. It reports whether this had not happened before.
func (s *Stream) forget() bool {
	s.mu.Lock()
	first := !s.state.forgotten
	s.state.forgotten = true
	lingered := s.linger != nil
	if lingered {
		s.linger.Stop()
		s.linger = nil
	}
	if first {
		s.window.end(&s.session.extra)
	}
	s.mu.Unlock()
	if lingered {
		s.session.lingering.Add(-1)
	}
	if first {
		s.session.remove(s)
	}
	return first
}
