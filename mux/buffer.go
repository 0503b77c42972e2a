// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

const quietBuffer = 1 << 10 // bytes that are read at once, while there is little to read

// buffer is what a copy reads into: small until there is much to read, since most
// connections rest most of the time. It has room for the header of a frame before
// what is read.
type buffer struct {
	small [frameHeader + quietBuffer]byte
	big   *[]byte
}

// next returns the buffer, with the room.
func (b *buffer) next() []byte {
	if b.big != nil {
		return *b.big
	}
	return b.small[:]
}

// took says how much was read into the last buffer.
func (b *buffer) took(n int) {
	switch {
	case b.big == nil && n == quietBuffer:
		b.big = newBlock(maxFrame)
	case b.big != nil && n <= quietBuffer:
		b.release()
	}
}

func (b *buffer) release() {
	if b.big != nil {
		freeBlock(b.big)
		b.big = nil
	}
}
