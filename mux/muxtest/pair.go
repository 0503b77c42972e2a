// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package muxtest

import (
	"net"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

// Pair returns the two ends of a session over net.Pipe, without a handshake. It
// works in a bubble of fake time. Both are closed when the test ends.
func Pair(t testing.TB, agent, gateway mux.Config) (*mux.Session, *mux.Session) {
	t.Helper()
	a, g := net.Pipe()
	return Over(t, a, g, agent, gateway)
}

// Over is Pair over connections of the caller's, for instance faulty ones.
func Over(t testing.TB, a, g net.Conn, agent, gateway mux.Config) (*mux.Session, *mux.Session) {
	t.Helper()
	as, err := mux.NewAgentSession(a, agent)
	if err != nil {
		t.Fatalf("agent session: %v", err)
	}
	gs, err := mux.NewGatewaySession(g, gateway)
	if err != nil {
		_ = as.Close()
		t.Fatalf("gateway session: %v", err)
	}
	t.Cleanup(func() {
		_ = as.Close()
		_ = gs.Close()
	})
	return as, gs
}
