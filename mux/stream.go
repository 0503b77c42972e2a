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

	"github.com/hashicorp/yamux"
)

// Stream is one stream of a session, a net.Conn with half-close. Deadlines that
// pass are os.ErrDeadlineExceeded; operations after Close or Reset are
// net.ErrClosed, as are writes after CloseWrite.
type Stream struct {
	session *Session
	y       *yamux.Stream
	kind    Kind
	header  []byte
	opened  bool // by Open: it has a slot
	held    bool // its holder has been told of it

	reading chan struct{} // holds a token while somebody reads y
	taken   int           // of the reader: bytes read since the receive buffer was empty
	burst   atomic.Bool   // these were many, and the receive buffer may be great
	drained atomic.Bool   // the last Read has taken all
	watched atomic.Bool   // a timer looks whether the stream is quiet
	reads   atomic.Uint64
	writing chan struct{} // holds a token while somebody writes y
	pace    pace          // of the writer
	account *account

	gone chan struct{} // closed by Close and Reset

	mu            sync.Mutex
	peerEnded     bool // the peer's end was read
	writeDeadline time.Time
	writeEnded    bool // by CloseWrite
	quiet         *time.Timer
}

var _ net.Conn = (*Stream)(nil)

func newStream(s *Session, y *yamux.Stream) *Stream {
	st := &Stream{
		session: s, y: y,
		reading: make(chan struct{}, 1),
		writing: make(chan struct{}, 1),
		gone:    make(chan struct{}),
	}
	s.adopt(st)
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
	select {
	case <-s.gone:
		return 0, net.ErrClosed
	case s.reading <- struct{}{}:
	}
	defer func() { <-s.reading }()
	if s.isClosed() {
		return 0, net.ErrClosed
	}
	n, err := s.y.Read(p)
	if n > 0 {
		// An error beside bytes concerns the window update, hence the session.
		if err != nil {
			_ = s.fault(err)
		}
		s.count(n, n < len(p))
		return n, nil
	}
	if err == io.EOF {
		return 0, s.eof()
	}
	return 0, s.fault(err)
}

// eof tells the end that the peer sent from the one that yamux reports when the
// session is over.
func (s *Stream) eof() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed():
		return net.ErrClosed
	case s.peerEnded:
	case s.session.ys.IsClosed():
		return s.session.over()
	default:
		s.peerEnded = true
	}
	return io.EOF
}

// A stream that was busy gives its receive buffer back once it has been quiet:
// yamux keeps it at its greatest size, and a stream may be quiet for hours. To
// do so while it is busy would make a new buffer of every few frames.

// count takes note of a Read; one that got less than it could has taken all.
func (s *Stream) count(n int, all bool) {
	s.taken += n
	if s.taken > 4*maxChunk {
		s.burst.Store(true)
	}
	if all {
		s.taken = 0
	}
	s.drained.Store(all)
	if now := s.reads.Add(1); s.burst.Load() && s.watched.CompareAndSwap(false, true) {
		s.watch(now)
	}
}

// watch looks later whether anything was read meanwhile. The timer would keep a
// stream alive that is closed.
func (s *Stream) watch(reads uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		s.quiet = time.AfterFunc(quietAfter, func() { s.shrink(reads) })
	}
}

// shrink frees the receive buffer if nothing was read since it was called last,
// and nothing is there to be read.
func (s *Stream) shrink(before uint64) {
	now := s.reads.Load()
	switch {
	case s.isClosed():
	case now != before:
		s.watch(now)
	case s.drained.Load():
		s.burst.Store(false)
		s.watched.Store(false)
		s.y.Shrink()
	default: // its reader has stopped: when it goes on, so does this
		s.watched.Store(false)
	}
}

// fault translates an error of yamux.
func (s *Stream) fault(err error) error {
	if s.isClosed() {
		return net.ErrClosed
	}
	if s.session.woken() {
		return s.session.over()
	}
	switch err {
	case nil:
		return nil
	case yamux.ErrTimeout:
		return os.ErrDeadlineExceeded
	case yamux.ErrConnectionReset:
		return ErrReset
	case yamux.ErrStreamClosed:
		return net.ErrClosed
	case yamux.ErrConnectionWriteTimeout:
		s.session.end(ErrStalled)
	}
	return s.session.over()
}

// SetDeadline sets both deadlines.
func (s *Stream) SetDeadline(t time.Time) error {
	if err := s.SetReadDeadline(t); err != nil {
		return err
	}
	return s.SetWriteDeadline(t)
}

// SetReadDeadline bounds present and future Reads; zero means no bound. It does
// not interrupt a Read while a frame of this stream is there in part and the
// connection has stalled: yamux holds the stream's buffer meanwhile. That lasts
// until the rest arrives or the session ends.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return net.ErrClosed
	}
	_ = s.y.SetReadDeadline(t)
	if s.session.woken() {
		_ = s.y.SetReadDeadline(past())
	}
	return nil
}

// SetWriteDeadline bounds present and future Writes; zero means no bound. It
// ends the wait for the peer to read and for the relay streams' turn. A frame
// that the connection is about to take is waited for, at most 10 s.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return net.ErrClosed
	}
	s.writeDeadline = t
	if !s.budgeted() {
		_ = s.y.SetWriteDeadline(t)
		if s.session.woken() {
			_ = s.y.SetWriteDeadline(past())
		}
	}
	notify(s.account.wake)
	return nil
}

// expire wakes everybody who waits in this stream, for good.
func (s *Stream) expire() {
	_ = s.y.SetReadDeadline(past())
	_ = s.y.SetWriteDeadline(past())
	notify(s.account.wake)
}

func (s *Stream) isClosed() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
