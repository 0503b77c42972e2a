// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"io"
	"net"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// What tests of package mux_test need of the inside.
const (
	MaxHead     = maxHead
	MaxChunk    = maxChunk
	Backlog     = backlog
	Window      = window
	MaxWindow   = maxWindow
	RelayFrames = relayFrames
	MaxKept     = maxKept
	MaxUnread   = maxUnread
)

var (
	ReadOpening = readOpening
	Opening     = opening
)

// Kept returns the streams that the multiplexer has not forgotten.
func Kept(s *Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// ReadAnswer reads the answer to a handshake.
func ReadAnswer(r io.Reader) ([]byte, error) { return readAnswer(r) }

// DialOver is d.Dial on a connection that exists.
func DialOver(ctx context.Context, d *Dialer, conn net.Conn, cfg Config) (*Session, error) {
	t, err := d.target()
	if err != nil {
		return nil, err
	}
	return d.dialOver(ctx, conn, t, secret.New("token"), cfg)
}
