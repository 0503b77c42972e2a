// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Session is one connection and its streams.
type Session struct {
	agent   bool
	cfg     Config
	conn    net.Conn
	out     *sender
	slots   chan struct{} // a token for each stream of Open
	budget  chan struct{} // a token for each frame of a relay stream before the connection
	opening chan struct{} // a token for each stream that the peer has not accepted yet
	done    chan struct{} // closed when the session is over
	closed  chan struct{} // closed when its goroutines are, too
	running sync.WaitGroup

	open       atomic.Int32 // streams that somebody holds
	unread     atomic.Int32 // opened by the peer, kind and header not yet there
	lingering  atomic.Int32 // closed, the peer's end not yet there
	peerLeaves atomic.Bool  // the peer accepts no streams any more
	extra      atomic.Int64 // bytes by which windows are greater than at first, together

	mu         sync.Mutex
	err        error // why it ended; set before done is closed
	nextID     uint32
	streams    map[uint32]*Stream  // that may still get or send something
	unaccepted map[uint32]struct{} // opened, maybe given up, and not accepted by the peer
}

// NewAgentSession starts the agent's end of a session on a connection whose
// handshake is over. Dial is the way to get one; this is for tests and for
// transports of another kind.
func NewAgentSession(conn net.Conn, cfg Config) (*Session, error) {
	return newSession(conn, nil, cfg, true)
}

// NewGatewaySession is NewAgentSession for the gateway's end.
func NewGatewaySession(conn net.Conn, cfg Config) (*Session, error) {
	return newSession(conn, nil, cfg, false)
}

// newSession owns conn, also when it fails.
func newSession(conn net.Conn, early []byte, cfg Config, agent bool) (*Session, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	s := &Session{
		agent:      agent,
		cfg:        cfg,
		conn:       conn,
		slots:      make(chan struct{}, cfg.MaxStreams),
		budget:     make(chan struct{}, relayFrames),
		opening:    make(chan struct{}, backlog),
		done:       make(chan struct{}),
		closed:     make(chan struct{}),
		nextID:     2,
		streams:    make(map[uint32]*Stream),
		unaccepted: make(map[uint32]struct{}),
	}
	if agent {
		s.nextID = 1
	}
	s.out = newSender(conn, func() { s.end(ErrStalled) }, s.lost)
	s.running.Go(func() { s.out.run(s.done) })
	s.running.Go(func() { s.lost(newReceiver(s, early, conn).run()) })
	return s, nil
}

// alertTimeout is for TLS to say goodbye.
const alertTimeout = 500 * time.Millisecond

// closeConn wakes everybody who reads or writes. TLS gets a moment for its
// goodbye.
func closeConn(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	if secured, ok := conn.(*tls.Conn); ok {
		timer := time.AfterFunc(alertTimeout, func() { _ = secured.NetConn().Close() })
		defer timer.Stop()
	}
	_ = conn.Close()
}

// Done is closed when the session has ended, for whatever reason.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err says why the session has ended and is nil before. It is ErrSessionClosed
// itself after Close, wraps ErrProtocol or ErrStalled, or wraps the error of
// the connection, which is io.EOF if the peer closed it.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// RemoteAddr is the address of the peer; of a unix socket it may be empty.
func (s *Session) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }

// NumStreams returns the number of streams that are held by either side's
// callers in this process: opened or handed to Handle, and not closed yet.
func (s *Session) NumStreams() int { return int(s.open.Load()) }

// Close ends the session and all its streams, at once. It waits at most about 2
// s for the session's own goroutines, not for those of Handle, and may be
// called often.
func (s *Session) Close() error {
	s.end(ErrSessionClosed)
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-s.closed:
		return nil
	case <-timer.C:
		return errors.New("mux: the connection does not end although it was closed")
	}
}

// end ends the session; the first cause counts.
func (s *Session) end(cause error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = cause
	close(s.done)
	streams := slices.Collect(maps.Values(s.streams))
	s.mu.Unlock()
	for _, st := range streams {
		st.sessionOver()
	}
	go func() { // whoever waits for the connection, or has to do with it, is woken by that
		closeConn(s.conn)
		s.running.Wait()
		close(s.closed)
	}()
}

// lost ends a session whose connection has failed, or whose peer has.
func (s *Session) lost(err error) {
	if !errors.Is(err, ErrProtocol) {
		err = fmt.Errorf("mux: connection lost: %w", err)
	}
	s.end(err)
}

// remove forgets a stream.
func (s *Session) remove(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.id] == st {
		delete(s.streams, st.id)
	}
}

// over is the error of operations on an ended session's streams.
func (s *Session) over() error {
	err := s.Err()
	switch {
	case err == nil, errors.Is(err, ErrSessionClosed):
		return ErrSessionClosed
	}
	return fmt.Errorf("%w: %w", ErrSessionClosed, err)
}

func (s *Session) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
