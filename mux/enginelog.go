// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"log/slog"
)

// engineLog passes on that yamux complained, and with which of its formats.
// What it formats is left out: numbers of frames, of no use to an operator.
type engineLog struct{ log *slog.Logger }

func (l engineLog) Printf(format string, _ ...any) {
	l.log.LogAttrs(context.Background(), slog.LevelDebug, "multiplexer event", slog.String("event", format))
}

func (l engineLog) Print(...any)   { l.Printf("") }
func (l engineLog) Println(...any) { l.Printf("") }
