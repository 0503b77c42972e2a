// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Stream is one stream of a session, a net.Conn with half-close. Deadlines that
// pass are os.ErrDeadlineExceeded; operations after Close or Reset are
// net.ErrClosed, as are writes after CloseWrite.
type Stream struct {
	session *Session
	id      uint32
	kind    Kind
	header  []byte
	opened  bool // by Open: it has a slot
	held    bool // its holder has been told of it

	writing chan struct{} // holds a token while somebody writes
	pace    pace          // of the writer
	wake    chan struct{} // tells a waiting writer that its conditions changed
	gone    chan struct{} // closed by Close and Reset

	mu       sync.Mutex
	readable sync.Cond // something of what a reader waits for has changed
	inbox    inbox
	window   receiveWindow
	credit   int // bytes that the peer will take
	state    streamState

	readDeadline  time.Time
	readTimer     *time.Timer
	writeDeadline time.Time

	after   int         // bytes that nobody has read before Close, or that came later
	endedAt time.Time   // when Close had ended our direction
	linger  *time.Timer // for the peer's end, after that
}

// streamState is what has happened to a stream; nothing of it is undone.
type streamState struct {
	closed     bool // by Close or Reset
	writeEnded bool // by CloseWrite
	ended      bool // our end was sent
	peerEnded  bool
	reset      bool // by the peer
	lost       bool // the session is over
	forgotten  bool // by the session
}

var _ net.Conn = (*Stream)(nil)

func newStream(s *Session, id uint32) *Stream {
	st := &Stream{
		session: s, id: id,
		writing: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		gone:    make(chan struct{}),
		window:  newReceiveWindow(), credit: window,
	}
	st.readable.L = &st.mu
	return st
}

// hold makes it a stream that somebody holds, from now until Close or Reset.
func (s *Stream) hold(kind Kind, header []byte) {
	s.kind, s.header, s.held = kind, header, true
	s.session.open.Add(1)
}

// Kind returns what the opener said the stream is for.
func (s *Stream) Kind() Kind { return s.kind }

// Header returns what the opener said with the kind, at most MaxHeader bytes.
// The peer chose them; the caller must not change them.
func (s *Stream) Header() []byte { return s.header }

// LocalAddr is the session's.
func (s *Stream) LocalAddr() net.Addr { return s.session.conn.LocalAddr() }

// RemoteAddr is the session's.
func (s *Stream) RemoteAddr() net.Addr { return s.session.conn.RemoteAddr() }

// Read reads what the peer wrote. io.EOF means that the peer ended its
// direction; ErrReset, ErrSessionClosed and others mean that something may be
// missing.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.mu.Lock()
	for s.inbox.empty() {
		if err := s.unreadable(); err != nil {
			s.mu.Unlock()
			return 0, err
		}
		s.readable.Wait()
	}
	n := s.inbox.take(p)
	growth := s.taken(n)
	s.mu.Unlock()
	if growth > 0 {
		s.session.out.tell(s.id, 0, growth)
	}
	return n, nil
}

// unreadable says why there is nothing to be read, or nil if there will be.
func (s *Stream) unreadable() error {
	switch {
	case s.state.closed:
		return net.ErrClosed
	case s.state.reset:
		return ErrReset
	case s.state.peerEnded:
		return io.EOF
	case s.state.lost:
		return s.session.over()
	case passed(s.readDeadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && time.Until(deadline) <= 0 }

// taken takes note that n bytes were read, and returns how much room to give to
// the peer for them.
func (s *Stream) taken(n int) (growth int) {
	if s.state.peerEnded || !s.window.read(n) {
		return 0
	}
	var more *atomic.Int64
	if !s.state.closed {
		more = &s.session.extra
	}
	return s.window.give(time.Now(), more)
}

// SetDeadline sets both deadlines.
func (s *Stream) SetDeadline(t time.Time) error {
	if err := s.SetReadDeadline(t); err != nil {
		return err
	}
	return s.SetWriteDeadline(t)
}

// SetReadDeadline bounds present and future Reads that find nothing; zero means
// no bound.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.closed {
		return net.ErrClosed
	}
	s.readDeadline = t
	switch {
	case s.readTimer != nil && t.IsZero():
		s.readTimer.Stop()
	case s.readTimer != nil:
		s.readTimer.Reset(time.Until(t))
	case !t.IsZero():
		s.readTimer = time.AfterFunc(time.Until(t), s.readExpired)
	}
	return nil
}

func (s *Stream) readExpired() {
	s.mu.Lock()
	s.readable.Broadcast()
	s.mu.Unlock()
}

// SetWriteDeadline bounds present and future Writes; zero means no bound. It
// ends the wait for the peer to read and for the relay streams' turn. A frame
// that the connection is about to take is waited for, at most 10 s.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.closed {
		return net.ErrClosed
	}
	s.writeDeadline = t
	notify(s.wake)
	return nil
}

// wakeUp has everybody who waits in this stream look again.
func (s *Stream) wakeUp() {
	s.readable.Broadcast()
	notify(s.wake)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
