// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import "sync"

// account is what the peer's frames say of a stream. It begins with the frame
// that opens the stream, whoever sends that, since the peer's word may be here
// before Open or Handle has the stream.
type account struct {
	wake chan struct{} // tells a waiting writer that its conditions changed

	acked bool // of Session.mu: the peer knows of the stream

	mu     sync.Mutex
	credit int // bytes that the peer will take; counted for relay streams only
	reset  bool
}

func newAccount(acked bool) *account {
	return &account{wake: make(chan struct{}, 1), acked: acked, credit: window}
}

// take takes up to n bytes of the window, and returns 0 if it is used up.
func (a *account) take(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := max(0, min(n, a.credit))
	a.credit -= got
	return got
}

// spend is take of what is sent in any case.
func (a *account) spend(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credit -= n
}

// grow gives bytes of the window back, or new ones.
func (a *account) grow(n int) {
	a.mu.Lock()
	a.credit += n
	a.mu.Unlock()
	notify(a.wake)
}

// breakOff takes note that the peer has reset the stream.
func (a *account) breakOff() {
	a.mu.Lock()
	a.reset = true
	a.mu.Unlock()
	notify(a.wake)
}

// state says whether the window is open, and whether the peer has reset the
// stream.
func (a *account) state() (open, reset bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.credit > 0, a.reset
}

// received is told of the flags and the growth of a window in the peer's frames.
func (s *Session) received(stream uint32, flags uint16, growth uint32) {
	s.mu.Lock()
	if flags&flagSYN != 0 {
		s.accounts[stream] = newAccount(true)
	}
	a := s.accounts[stream]
	if a != nil && flags&flagACK != 0 {
		a.acked = true
	}
	s.mu.Unlock()
	switch {
	case a == nil && flags&flagACK != 0: // of a stream that was given up before
		s.conn.forget(stream)
	case a == nil:
	case flags&flagRST != 0:
		a.breakOff()
	case growth > 0:
		a.grow(int(growth))
	}
}

// sending is told of the flags in the frames of our multiplexer, before they
// are sent.
func (s *Session) sending(stream uint32, flags uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case flags&flagSYN != 0:
		s.accounts[stream] = newAccount(false)
	case flags&flagRST != 0: // nobody has accepted it
		delete(s.accounts, stream)
	}
}

// adopt registers a stream and gives it its account.
func (s *Session) adopt(st *Stream) {
	s.mu.Lock()
	st.account = s.accounts[st.y.StreamID()]
	if st.account == nil { // the peer opened it twice, and the session is about to end
		st.account = newAccount(true)
	}
	over := s.streams == nil
	if !over {
		s.streams[st] = struct{}{}
	}
	s.mu.Unlock()
	if over {
		st.expire()
	}
}

// forget reports whether the peer knows of the stream.
func (s *Session) forget(st *Stream) (acked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	if id := st.y.StreamID(); s.accounts[id] == st.account {
		delete(s.accounts, id)
	}
	return st.account.acked
}
