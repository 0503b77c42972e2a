// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"encoding/binary"
	"fmt"
)

// A frame of the wire (yamux, version 0): version, type, flags (2 bytes), stream
// (4), length (4), all big endian, and for frameData that many bytes. For
// frameWindow the length is what the window grows by.
const (
	frameHeader = 12

	frameData   = 0
	frameWindow = 1
	framePing   = 2
	frameGoAway = 3

	flagSYN = 1 << 0
	flagACK = 1 << 1
	flagFIN = 1 << 2
	flagRST = 1 << 3
)

// frame is the header of a frame.
type frame struct {
	version byte
	kind    byte
	flags   uint16
	stream  uint32
	length  uint32
}

// decodeFrame decodes the first frameHeader bytes of p.
func decodeFrame(p []byte) frame {
	return frame{
		version: p[0],
		kind:    p[1],
		flags:   binary.BigEndian.Uint16(p[2:]),
		stream:  binary.BigEndian.Uint32(p[4:]),
		length:  binary.BigEndian.Uint32(p[8:]),
	}
}

// append encodes a header.
func (f frame) append(p []byte) []byte {
	p = append(p, f.version, f.kind)
	p = binary.BigEndian.AppendUint16(p, f.flags)
	p = binary.BigEndian.AppendUint32(p, f.stream)
	return binary.BigEndian.AppendUint32(p, f.length)
}

// payload returns how many bytes follow the header.
func (f frame) payload() int {
	if f.kind != frameData {
		return 0
	}
	return int(f.length)
}

// check refuses what no peer may send, whatever streams there are: frames of an
// unknown kind or above any window; a ping, which no peer needs; a stream with a
// number that is ours to give. odd says whether the peer's are odd.
func (f frame) check(odd bool) error {
	switch {
	case f.version != 0:
		return fmt.Errorf("%w: not a frame", ErrProtocol)
	case f.kind > frameGoAway:
		return fmt.Errorf("%w: frame of unknown type", ErrProtocol)
	case f.kind == framePing:
		return fmt.Errorf("%w: ping", ErrProtocol)
	case f.kind == frameData && f.length > maxWindow:
		return fmt.Errorf("%w: frame exceeds %d bytes", ErrProtocol, maxWindow)
	case f.kind <= frameWindow && f.flags&flagSYN != 0 && (f.stream == 0 || (f.stream%2 == 1) != odd):
		return fmt.Errorf("%w: stream number of the other side", ErrProtocol)
	}
	return nil
}
