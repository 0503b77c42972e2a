// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// Session is one connection and its streams.
type Session struct {
	agent  bool
	cfg    Config
	conn   *frameConn
	ys     *yamux.Session
	slots  chan struct{} // a token for each stream of Open
	budget chan struct{} // a token for each queued frame of a relay stream
	done   chan struct{} // closed when the session is over
	closed chan struct{} // closed when its goroutines are, too

	open      atomic.Int32 // streams that somebody holds
	unread    atomic.Int32 // accepted, kind and header not yet there
	lingering atomic.Int32 // closed, the peer's end not yet there

	mu       sync.Mutex
	err      error // why it ended; set before done is closed
	streams  map[*Stream]struct{}
	accounts map[uint32]*account
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
		agent:    agent,
		cfg:      cfg,
		slots:    make(chan struct{}, cfg.MaxStreams),
		budget:   make(chan struct{}, relayFrames),
		done:     make(chan struct{}),
		closed:   make(chan struct{}),
		streams:  make(map[*Stream]struct{}),
		accounts: make(map[uint32]*account),
	}
	start := yamux.Server
	if agent {
		start = yamux.Client
	}
	s.mu.Lock() // the connection may fail before s is complete
	defer s.mu.Unlock()
	s.conn = newFrameConn(conn, early, s)
	s.ys, err = start(s.conn, engineConfig(cfg))
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("mux: %w", err)
	}
	go s.acceptLoop()
	return s, nil
}

// engineConfig turns off all of yamux's own timers: its keepalive is slower
// than our reports, its open timeout ends the session for one stream, and its
// close timeout would cut a reply that goes on after a half-close and hold a
// dead session in memory.
func engineConfig(cfg Config) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog:          backlog,
		EnableKeepAlive:        false,
		KeepAliveInterval:      time.Hour, // must not be zero
		ConnectionWriteTimeout: writeTimeout,
		MaxStreamWindowSize:    window,
		StreamOpenTimeout:      0,
		StreamCloseTimeout:     0,
		Logger:                 engineLog{cfg.Logger},
	}
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
	s.mu.Unlock()
	s.wakeStreams()
	go func() {
		_ = s.ys.Close()
		close(s.closed)
	}()
}

// lost ends a session whose connection has failed.
func (s *Session) lost(err error) {
	if !errors.Is(err, ErrProtocol) {
		err = fmt.Errorf("mux: connection lost: %w", err)
	}
	s.end(err)
}

// wakeStreams ends every wait in a stream, for good. When yamux shuts down, its
// streams spin until the connection's reader has gone, each for as long as the
// scheduler lets it; so they must have left before, or at least soon after.
func (s *Session) wakeStreams() {
	s.mu.Lock()
	streams := s.streams
	s.streams = nil
	s.mu.Unlock()
	for st := range streams {
		st.expire()
	}
}

// woken reports whether streams must not wait any more.
func (s *Session) woken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams == nil
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

// cause finds out why the multiplexer gave up, which accept noticed with err,
// though the connection is well.
func (s *Session) cause(err error) error {
	if err == yamux.ErrConnectionWriteTimeout {
		return ErrStalled
	}
	// Streams that are still queued hide the error that we look for.
	for range backlog + 1 {
		if err != yamux.ErrSessionShutdown && err != nil {
			break
		}
		_, err = s.ys.AcceptStream()
	}
	// The texts of yamux are constant and hold nothing of the peer's.
	return fmt.Errorf("%w: %v", ErrProtocol, err)
}
