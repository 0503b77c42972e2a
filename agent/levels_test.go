// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
)

// buffer is a writer that many may use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// take returns what was written since the last take.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.b.Reset()
	return b.b.String()
}

// levels returns a logger, and the levels and messages of what was logged at
// info or above since the last call.
func levels(t testing.TB) (*slog.Logger, func() string) {
	out := &buffer{}
	return slog.New(levelHandler{out}), out.take
}

type levelHandler struct{ out *buffer }

func (h levelHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h levelHandler) Handle(_ context.Context, r slog.Record) error {
	_, err := h.out.Write([]byte(r.Level.String() + " " + r.Message + "\n"))
	return err
}

func (h levelHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h levelHandler) WithGroup(string) slog.Handler      { return h }
