// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What goes in comes out, in order, however it is cut, and what is kept for it is
// at most twice as much and a block.
func TestInbox(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var b inbox
		var want []byte
		next := byte(0)
		for range 200 {
			if rng.IntN(2) == 0 && len(want) < window {
				p := make([]byte, 1+rng.IntN(1<<rng.IntN(17)))
				for i := range p {
					p[i] = next
					next++
				}
				want = append(want, p...)
				if len(p) <= maxShared {
					b.fill(p)
				} else {
					block := newBlock(len(p))
					copy(*block, p)
					b.put(block)
				}
			} else {
				p := make([]byte, rng.IntN(1<<rng.IntN(18)))
				n := b.take(p)
				if n != min(len(p), len(want)) || !bytes.Equal(p[:n], want[:n]) {
					t.Fatalf("seed %d: took %d of %d bytes", seed, n, len(want))
				}
				want = want[n:]
			}
			kept := 0
			for _, block := range b.blocks {
				kept += cap(*block)
			}
			if b.empty() != (len(want) == 0) || kept > 2*(len(want)+b.read)+minBlock {
				t.Fatalf("seed %d: %d bytes are kept for %d, empty is %v", seed, kept, len(want)+b.read, b.empty())
			}
		}
		if n := b.drop(); n != len(want) || !b.empty() {
			t.Fatalf("seed %d: dropped %d of %d bytes", seed, n, len(want))
		}
	}
}

// A peer that sends byte by byte makes a stream keep little more than bytes.
func TestInboxOfBytes(t *testing.T) {
	var b inbox
	for range window {
		b.fill([]byte{1})
	}
	if n := len(b.blocks); n != window/minBlock {
		t.Errorf("%d blocks of %d bytes for %d bytes", n, minBlock, window)
	}
}

func TestBlocksAreHalfFull(t *testing.T) {
	for _, n := range []int{0, 1, minBlock - 1, minBlock, minBlock + 1, maxFrame, maxFrame + 1, window, maxWindow + frameHeader, 2 * maxWindow} {
		b := newBlock(n)
		if len(*b) != n || cap(*b) < minBlock || cap(*b) > max(minBlock, 2*n) {
			t.Errorf("block of %d bytes: %d, of %d", n, len(*b), cap(*b))
		}
		freeBlock(b)
		if again := newBlock(n); len(*again) != n {
			t.Errorf("used block of %d bytes: %d", n, len(*again))
		}
	}
}
