// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// acceptLoop does nothing but accept and hand off, so that the peer's opens are
// acknowledged whatever the streams before them are waiting for.
func (s *Session) acceptLoop() {
	for {
		y, err := s.ys.AcceptStream()
		if s.ended() {
			return
		}
		if err != nil {
			s.end(s.cause(err))
			return
		}
		if s.ys.NumStreams() > maxKept {
			s.end(fmt.Errorf("%w: more than %d streams at once", ErrProtocol, maxKept))
			return
		}
		if s.unread.Add(1) > maxUnread {
			s.unread.Add(-1)
			_ = newStream(s, y).Reset()
			continue
		}
		go s.receive(y)
	}
}

// receive reads the kind and the header of a stream and has it handled.
func (s *Session) receive(y *yamux.Stream) {
	st := newStream(s, y)
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
