// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"fmt"

	"github.com/hashicorp/yamux"
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
	p := opening(k, header)
	type result struct {
		st  *Stream
		err error
	}
	// yamux waits without a context for a peer that accepts nothing, and for
	// the connection. An open that is given up is undone by who waits for it.
	results := make(chan result)
	go func() {
		st, err := s.openNow(p)
		select {
		case results <- result{st, err}:
		case <-ctx.Done():
			if err == nil {
				_ = st.Reset()
			}
		}
	}()
	select {
	case r := <-results:
		return r.st, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("mux: open: %w", context.Cause(ctx))
	}
}

// openNow opens a stream with a slot, which the stream then holds.
func (s *Session) openNow(p []byte) (*Stream, error) {
	y, err := s.ys.OpenStream()
	if err != nil {
		<-s.slots
		return nil, s.openFault(err)
	}
	st := newStream(s, y)
	st.opened = true
	st.hold(Kind(p[0]), p[3:])
	if err := st.begin(p); err != nil {
		_ = st.Reset()
		return nil, err
	}
	return st, nil
}

// begin sends the first bytes of a stream. Those of a relay wait for one turn
// only, whatever else is being opened.
func (s *Stream) begin(p []byte) error {
	if !s.budgeted() {
		_, err := s.y.Write(p)
		if err != nil {
			err = s.session.openFault(err)
		}
		return err
	}
	s.account.spend(len(p))
	if s.session.conn.data(s.y.StreamID(), p) != nil {
		return s.session.over()
	}
	return nil
}

func (s *Session) openFault(err error) error {
	switch err {
	case yamux.ErrConnectionWriteTimeout:
		s.end(ErrStalled)
	case yamux.ErrStreamsExhausted:
		s.end(fmt.Errorf("mux: session used up: %w", err))
	case yamux.ErrRemoteGoAway:
		return fmt.Errorf("mux: open: %w", ErrReset)
	}
	return s.over()
}
