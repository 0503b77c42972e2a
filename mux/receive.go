// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"fmt"
	"net"
)

// receiver reads the frames of the peer and hands on what they say. It waits
// for nobody but the connection: not for readers of streams, since a window is
// room that is there, and not for writers, since it queues its answers.
type receiver struct {
	session *Session
	from    source
}

func newReceiver(s *Session, early []byte, conn net.Conn) *receiver {
	return &receiver{session: s, from: source{conn: conn, buf: early}}
}

// run returns the error of the connection, or ErrProtocol.
func (r *receiver) run() error {
	for {
		head, err := r.from.next(frameHeader)
		if err != nil {
			return err
		}
		f := decodeFrame(head)
		if err := f.check(!r.session.agent); err != nil {
			return err
		}
		if err := r.handle(f); err != nil {
			return err
		}
	}
}

// handle does what one frame says.
func (r *receiver) handle(f frame) error {
	switch {
	case f.kind == frameGoAway && f.length == 0:
		r.session.peerLeaves.Store(true)
		return nil
	case f.kind == frameGoAway:
		return fmt.Errorf("%w: it gave up on us", ErrProtocol)
	}
	st, err := r.session.find(f)
	if err != nil {
		return err
	}
	if f.flags&flagSYN != 0 {
		r.session.accept(st, f.stream)
	}
	if f.kind == frameWindow && st != nil {
		st.grow(int(f.length))
	}
	if f.payload() > 0 {
		if err := r.data(st, f.payload()); err != nil {
			return err
		}
	}
	switch {
	case st == nil:
	case f.flags&flagRST != 0:
		st.peerReset()
	case f.flags&flagFIN != 0:
		return st.peerEnd()
	}
	return nil
}

// data reads the n bytes of a data frame. They are the stream's when all are
// there.
func (r *receiver) data(st *Stream, n int) error {
	if st != nil {
		wanted, err := st.announced(n)
		if err != nil {
			return err
		}
		if wanted {
			return r.deliver(st, n)
		}
	}
	if err := r.from.discard(n); err != nil {
		return err
	}
	if st != nil {
		st.discarded(n)
	}
	return nil
}

func (r *receiver) deliver(st *Stream, n int) error {
	if n <= maxShared {
		p, err := r.from.next(n)
		if err != nil {
			return err
		}
		st.deliver(p, nil)
		return nil
	}
	block := newBlock(n + frameHeader)
	if err := r.from.fill(*block, n); err != nil {
		return err
	}
	*block = (*block)[:n]
	st.deliver(nil, block)
	return nil
}
