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
	RelayFrames = relayFrames
	MaxKept     = maxKept
	MaxUnread   = maxUnread
)

var (
	ReadOpening = readOpening
	Opening     = opening
	ResetFrame  = resetFrame
)

// Kept returns the streams that the multiplexer has not forgotten.
func Kept(s *Session) int { return s.ys.NumStreams() }

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

// ScanFrames scans p in pieces of the given size, as one side gets it.
func ScanFrames(p []byte, piece int, agent bool) error {
	s := scanner{odd: !agent, tell: func(uint32, uint16, uint32) {}}
	for len(p) > 0 {
		n := min(piece, len(p))
		if err := s.scan(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
