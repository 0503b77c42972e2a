// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"io"
	"net"
)

// sourceBuffer is what a session keeps to read small frames with. Great ones go
// past it.
const sourceBuffer = 4 << 10

// source reads a connection of which some bytes may have been read before. A
// header is read with what precedes or follows it, not alone: a read is a system
// call.
type source struct {
	conn net.Conn
	buf  []byte // read from conn and not taken
	room []byte // of sourceBuffer bytes, in which buf is once the early bytes are taken
}

// next takes n bytes, at most sourceBuffer, which are valid until the next call.
func (s *source) next(n int) ([]byte, error) {
	if err := s.need(n); err != nil {
		return nil, err
	}
	p := s.buf[:n]
	s.buf = s.buf[n:]
	return p, nil
}

// need reads until n bytes are in buf.
func (s *source) need(n int) error {
	if len(s.buf) >= n {
		return nil
	}
	if s.room == nil {
		s.room = make([]byte, sourceBuffer)
	}
	have := copy(s.room, s.buf) // fewer than n
	got, err := io.ReadAtLeast(s.conn, s.room[have:], n-have)
	s.buf = s.room[:have+got]
	return err
}

// fill takes n bytes, to the beginning of p. The rest of p, which must be less
// than sourceBuffer, is room for what may be read with them.
func (s *source) fill(p []byte, n int) error {
	have := copy(p[:n], s.buf)
	s.buf = s.buf[have:]
	if have == n {
		return nil
	}
	if n-have < sourceBuffer/2 { // it may be the end of a small frame
		if err := s.need(n - have); err != nil {
			return err
		}
		s.buf = s.buf[copy(p[have:n], s.buf):]
		return nil
	}
	got, err := io.ReadAtLeast(s.conn, p[have:], n-have)
	if err != nil {
		return err
	}
	if s.room == nil {
		s.room = make([]byte, sourceBuffer)
	}
	s.buf = s.room[:copy(s.room, p[n:have+got])]
	return nil
}

// discard takes n bytes.
func (s *source) discard(n int) error {
	for n > 0 {
		if err := s.need(1); err != nil {
			return err
		}
		skip := min(n, len(s.buf))
		s.buf = s.buf[skip:]
		n -= skip
	}
	return nil
}
