// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"context"
	"io"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// echo answers what it reads, and ends when the peer does.
func echo(s *mux.Stream) {
	defer s.Close()
	_, _ = io.Copy(s, s)
	_ = s.CloseWrite()
}

// swallow reads and says nothing.
func swallow(s *mux.Stream) {
	defer s.Close()
	_, _ = io.Copy(io.Discard, s)
}

// keep hands a stream to the test.
func keep(to chan *mux.Stream) func(*mux.Stream) {
	return func(s *mux.Stream) { to <- s }
}

func config(handle func(*mux.Stream)) mux.Config {
	return mux.Config{Handle: handle}
}

// side is one direction of opening: who opens which kind at whom.
type side struct {
	name string
	kind mux.Kind
}

var sides = []side{{"agent", mux.KindControl}, {"gateway", mux.KindRelay}}

// pick returns the opener and its peer.
func (s side) pick(agent, gateway *mux.Session) (opener, peer *mux.Session) {
	if s.kind == mux.KindControl {
		return agent, gateway
	}
	return gateway, agent
}

func open(t testing.TB, s *mux.Session, k mux.Kind, header string) *mux.Stream {
	t.Helper()
	st, err := s.Open(context.Background(), k, []byte(header))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return st
}

func readN(t testing.TB, r io.Reader, n int) []byte {
	t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		t.Fatalf("read: %v", err)
	}
	return p
}

func write(t testing.TB, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatalf("write: %v", err)
	}
}
