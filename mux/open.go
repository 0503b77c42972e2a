// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Open opens a stream of the kind that this side opens: KindControl for the
// agent, KindRelay for the gateway. header is at most MaxHeader bytes and is
// copied. Open returns when the connection has taken the opening, or with the
// cause of ctx; it does not wait for the peer. Too many streams at once are
// ErrTooManyStreams, at once.
func (s *Session) Open(ctx context.Context, k Kind, header []byte) (*Stream, error) {
	switch {
	case k != s.opens():
		return nil, ErrKind
	case len(header) > MaxHeader:
		return nil, ErrHeaderTooLarge
	case ctx.Err() != nil:
		return nil, fmt.Errorf("mux: open: %w", context.Cause(ctx))
	case s.ended():
		return nil, s.over()
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, ErrTooManyStreams
	}
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		<-s.slots
		return nil, fmt.Errorf("mux: open: %w", context.Cause(ctx))
	case <-s.done:
		<-s.slots
		return nil, s.over()
	}
	st, err := s.register()
	if err != nil {
		<-s.slots
		return nil, err
	}
	p := opening(k, header)
	st.opened = true
	st.hold(k, p[3:])
	// The connection knows no context. An open that is given up goes on, as a
	// stream that nobody wants.
	begun := make(chan error, 1)
	go func() { begun <- st.begin(p) }()
	select {
	case err = <-begun:
	case <-ctx.Done():
		err = fmt.Errorf("mux: open: %w", context.Cause(ctx))
	}
	if err != nil {
		_ = st.Reset()
		return nil, err
	}
	return st, nil
}

// register gives a stream its number. It has a place among those that the peer
// has not accepted yet.
func (s *Session) register() (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, ErrSessionClosed
	case s.peerLeaves.Load():
		<-s.opening
		return nil, fmt.Errorf("mux: open: %w", ErrReset)
	case s.nextID > math.MaxUint32-2:
		<-s.opening
		go s.end(errors.New("mux: session used up"))
		return nil, ErrSessionClosed
	}
	st := newStream(s, s.nextID)
	s.nextID += 2
	s.streams[st.id] = st
	s.unaccepted[st.id] = struct{}{}
	// Its number must be the next one also on the wire.
	s.out.queue(st.id, flagSYN, 0)
	return st, nil
}

// begin sends the first bytes of a stream. They wait for one turn only, whatever
// else is being opened.
func (s *Stream) begin(p []byte) error {
	s.mu.Lock()
	s.credit -= len(p)
	s.mu.Unlock()
	if s.session.out.data(s.id, p) != nil {
		return s.session.over()
	}
	return nil
}
