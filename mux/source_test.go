// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// pieces is a connection that gives some bytes in pieces.
type pieces struct {
	net.Conn
	left []byte
	size func() int
}

func (c *pieces) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), max(1, c.size()))], c.left)
	c.left = c.left[n:]
	return n, nil
}

// Whatever comes early and however the rest is cut, all of it is read, once and
// in order, and then the end.
func TestSource(t *testing.T) {
	all := make([]byte, 300<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(all)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		early := rng.IntN(1 << rng.IntN(16))
		s := source{buf: bytes.Clone(all[:early]), conn: &pieces{left: all[early:], size: func() int { return rng.IntN(1 << rng.IntN(18)) }}}
		got := make([]byte, 0, len(all))
		for len(got) < len(all) {
			left := len(all) - len(got)
			switch rng.IntN(3) {
			case 0:
				p, err := s.next(min(left, 1+rng.IntN(sourceBuffer)))
				if err != nil {
					t.Fatalf("seed %d: next: %v", seed, err)
				}
				got = append(got, p...)
			case 1:
				n := min(left, 1+rng.IntN(1<<rng.IntN(18)))
				p := make([]byte, n+rng.IntN(2)*frameHeader)
				if err := s.fill(p, n); err != nil {
					t.Fatalf("seed %d: fill: %v", seed, err)
				}
				got = append(got, p[:n]...)
			case 2:
				n := min(left, rng.IntN(10_000))
				if err := s.discard(n); err != nil {
					t.Fatalf("seed %d: discard: %v", seed, err)
				}
				got = append(got, all[len(got):len(got)+n]...)
			}
		}
		if !bytes.Equal(got, all) {
			t.Fatalf("seed %d: read something else", seed)
		}
		_, ended := s.next(1)
		if err := s.fill(make([]byte, 10_000), 10_000); ended != io.EOF || err != io.EOF {
			t.Fatalf("seed %d: after the end: %v, %v", seed, ended, err)
		}
	}
}

// The end in the middle of something is not a clean one.
func TestSourceThatIsCut(t *testing.T) {
	for name, read := range map[string]func(*source) error{
		"next":    func(s *source) error { _, err := s.next(20); return err },
		"fill":    func(s *source) error { return s.fill(make([]byte, 10_000), 10_000) },
		"a few":   func(s *source) error { return s.fill(make([]byte, 20), 20) },
		"discard": func(s *source) error { return s.discard(20) },
	} {
		s := source{conn: &pieces{left: make([]byte, 10), size: func() int { return 3 }}}
		if err := read(&s); !errors.Is(err, io.ErrUnexpectedEOF) && !(name == "discard" && errors.Is(err, io.EOF)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
