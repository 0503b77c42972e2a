// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// find returns the stream that a frame is of, which the frame may open; or nil
// if it is of none that we know any more.
func (s *Session) find(f frame) (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.unaccepted[f.stream]; ok && f.flags&(flagACK|flagRST) != 0 {
		delete(s.unaccepted, f.stream)
		<-s.opening
	}
	st := s.streams[f.stream]
	switch {
	case f.flags&flagSYN == 0:
		return st, nil
	case st != nil:
		return nil, fmt.Errorf("%w: a stream opened twice", ErrProtocol)
	case len(s.streams) >= maxKept:
		return nil, fmt.Errorf("%w: more than %d streams at once", ErrProtocol, maxKept)
	case s.err != nil || s.unread.Load() >= maxUnread:
		return nil, nil
	}
	st = newStream(s, f.stream)
	s.streams[f.stream] = st
	s.unread.Add(1)
	return st, nil
}

// accept answers the frame that has opened a stream, so that the peer's opens are
// accepted whatever the streams before them are waiting for. A stream that is
// one too many is nil.
func (s *Session) accept(st *Stream, id uint32) {
	if st == nil {
		s.out.answer(id, flagRST, 0)
		return
	}
	s.out.answer(id, flagACK, 0)
	go s.receive(st)
}

// receive reads the kind and the header of a stream and has it handled.
func (s *Session) receive(st *Stream) {
	kind, header, err := readOpening(st)
	s.unread.Add(-1)
	if err != nil || kind != s.accepts() || s.cfg.Handle == nil {
		_ = st.Reset()
		return
	}
	st.hold(kind, header)
	s.cfg.Handle(st)
}

func (s *Session) accepts() Kind {
	if s.agent {
		return KindRelay
	}
	return KindControl
}

func (s *Session) opens() Kind {
	if s.agent {
		return KindControl
	}
	return KindRelay
}

// opening is the first that an opener sends.
func opening(k Kind, header []byte) []byte {
	p := append(make([]byte, 0, 3+len(header)), byte(k))
	p = binary.BigEndian.AppendUint16(p, uint16(len(header)))
	return append(p, header...)
}

type deadlineReader interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

func readOpening(r deadlineReader) (Kind, []byte, error) {
	if err := r.SetReadDeadline(time.Now().Add(headerTimeout)); err != nil {
		return 0, nil, err
	}
	var fixed [3]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(fixed[1:]))
	if n > MaxHeader {
		return 0, nil, ErrHeaderTooLarge
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, nil, err
	}
	return Kind(fixed[0]), header, r.SetReadDeadline(time.Time{})
}
