// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"math/bits"
	"sync"
)

// inbox holds what a stream has received and nobody has read. A stream at rest
// has an empty one, which holds no memory. The stream's window bounds it, and
// since its blocks are at least half full, or small and filled up, so does that
// bound its memory.
type inbox struct {
	blocks []*[]byte // oldest first
	read   int       // bytes of the oldest that were read
}

func (b *inbox) empty() bool { return len(b.blocks) == 0 }

// put takes over a block, which is not empty.
func (b *inbox) put(block *[]byte) { b.blocks = append(b.blocks, block) }

// fill copies bytes that are too few for a block of their own.
func (b *inbox) fill(p []byte) {
	if n := len(b.blocks); n > 0 {
		if last := b.blocks[n-1]; cap(*last)-len(*last) >= len(p) {
			*last = append(*last, p...)
			return
		}
	}
	block := newBlock(len(p))
	copy(*block, p)
	b.put(block)
}

// take moves bytes to p and returns how many.
func (b *inbox) take(p []byte) (n int) {
	for n < len(p) && len(b.blocks) > 0 {
		oldest := b.blocks[0]
		moved := copy(p[n:], (*oldest)[b.read:])
		n += moved
		if b.read += moved; b.read == len(*oldest) {
			freeBlock(oldest)
			b.blocks[0], b.blocks, b.read = nil, b.blocks[1:], 0
		}
	}
	if len(b.blocks) == 0 {
		b.blocks = nil
	}
	return n
}

// drop frees everything and returns how many bytes that were.
func (b *inbox) drop() (n int) {
	for _, block := range b.blocks {
		n += len(*block)
		freeBlock(block)
	}
	n -= b.read
	*b = inbox{}
	return n
}

// Blocks are of powers of two, so that one is at least half full of a frame that
// is not small. Those of no stream are garbage after the next collections.
const (
	minBlock  = 1 << 10
	maxShared = minBlock / 2 // frames of at most that are copied into shared blocks
)

var blocks [12]sync.Pool // of minBlock, twice minBlock, … twice maxWindow

// newBlock returns a block of n bytes, at most twice maxWindow.
func newBlock(n int) *[]byte {
	class := bits.Len(uint(max(n-1, 0)) / minBlock)
	if b, ok := blocks[class].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, minBlock<<class)
	return &b
}

func freeBlock(b *[]byte) {
	blocks[bits.Len(uint(cap(*b)-1)/minBlock)].Put(b)
}
