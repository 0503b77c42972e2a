// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/binary"
	"fmt"
)

// A frame of the multiplexer: version 0, type, flags (2 bytes), stream (4),
// length (4), and for frameData that many bytes. For frameWindow the length is
// what the window grows by.
const (
	frameHeader = 12

	frameData   = 0
	frameWindow = 1
	framePing   = 2
	frameGoAway = 3

	flagSYN = 1 << 0
	flagACK = 1 << 1
	flagRST = 1 << 3
)

// putDataHeader writes the header of a data frame.
func putDataHeader(p []byte, stream uint32, length int) {
	clear(p[:frameHeader])
	p[1] = frameData
	binary.BigEndian.PutUint32(p[4:], stream)
	binary.BigEndian.PutUint32(p[8:], uint32(length))
}

func resetFrame(stream uint32) []byte {
	p := make([]byte, frameHeader)
	p[1] = frameWindow
	binary.BigEndian.PutUint16(p[2:], flagRST)
	binary.BigEndian.PutUint32(p[4:], stream)
	return p
}

// dataLength returns the bytes that follow a frame's header.
func dataLength(header []byte) int {
	if header[1] != frameData {
		return 0
	}
	return int(binary.BigEndian.Uint32(header[8:]))
}

// scanner checks the frames of a stream of bytes, wherever it is cut. It
// refuses what the multiplexer would take but must not get: a frame above the
// window, which it would read in full; a ping, which costs it a goroutine each
// and which no peer needs; a stream with a number that is ours to give.
//
// It tells of the flags, and of how much a stream's window grows: what relays
// write does not go through the multiplexer.
type scanner struct {
	odd    bool // the peer opens streams with odd numbers
	tell   func(stream uint32, flags uint16, growth uint32)
	header [frameHeader]byte
	have   int // bytes of header
	skip   int // bytes of data still to come
}

func (s *scanner) scan(p []byte) error {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip -= n
			p = p[n:]
			continue
		}
		n := copy(s.header[s.have:], p)
		s.have += n
		p = p[n:]
		if s.have < frameHeader {
			return nil
		}
		if err := s.check(); err != nil {
			return err
		}
		s.report()
		s.have, s.skip = 0, dataLength(s.header[:])
	}
	return nil
}

// missing returns how many bytes of a frame that has begun are still to come.
func (s *scanner) missing() int {
	if s.have > 0 {
		return frameHeader - s.have
	}
	return s.skip
}

func (s *scanner) report() {
	flags := binary.BigEndian.Uint16(s.header[2:])
	stream := binary.BigEndian.Uint32(s.header[4:])
	growth := uint32(0)
	switch s.header[1] {
	case frameData:
	case frameWindow:
		growth = binary.BigEndian.Uint32(s.header[8:])
	default:
		return
	}
	if flags != 0 || growth > 0 {
		s.tell(stream, flags, growth)
	}
}

func (s *scanner) check() error {
	flags := binary.BigEndian.Uint16(s.header[2:])
	stream := binary.BigEndian.Uint32(s.header[4:])
	length := binary.BigEndian.Uint32(s.header[8:])
	switch kind := s.header[1]; {
	case s.header[0] != 0:
		return fmt.Errorf("%w: not a frame", ErrProtocol)
	case kind > frameGoAway:
		return fmt.Errorf("%w: frame of unknown type", ErrProtocol)
	case kind == framePing:
		return fmt.Errorf("%w: ping", ErrProtocol)
	case kind == frameData && length > window:
		return fmt.Errorf("%w: frame exceeds %d bytes", ErrProtocol, window)
	case kind <= frameWindow && flags&flagSYN != 0 && (stream == 0 || (stream%2 == 1) != s.odd):
		return fmt.Errorf("%w: stream number of the other side", ErrProtocol)
	}
	return nil
}
