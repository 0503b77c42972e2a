// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package obs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
)

// ParseLevel reads debug, info, warn or error.
func ParseLevel(text string) (slog.Level, error) {
	var l slog.Level
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, text) || l.UnmarshalText([]byte(text)) != nil {
		return 0, fmt.Errorf("log-level: %q is not one of debug, info, warn, error", text)
	}
	return l, nil
}

// NewLogger returns a logger that writes to w what level lets through; with a
// *slog.LevelVar the level can change later. format is text, json or journal.
// The last is text for a service manager's journal: without the time, which
// the journal knows, and with the priority in front of each line.
func NewLogger(w io.Writer, level slog.Leveler, format string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	case "journal":
		opts.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		line := &priorityWriter{w: w}
		return slog.New(journalHandler{slog.NewTextHandler(line, opts), line}), nil
	}
	return nil, fmt.Errorf("log-format: %q is not one of text, json, journal", format)
}

// journalHandler puts each record's priority in front of its line, as
// sd-daemon(3) has it.
type journalHandler struct {
	slog.Handler
	line *priorityWriter
}

// Handle implements slog.Handler.
func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.priority = priority(r.Level)
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journalHandler{h.Handler.WithAttrs(attrs), h.line}
}

// WithGroup implements slog.Handler.
func (h journalHandler) WithGroup(name string) slog.Handler {
	return journalHandler{h.Handler.WithGroup(name), h.line}
}

// priority maps a level to syslog's.
func priority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "<3>"
	case l >= slog.LevelWarn:
		return "<4>"
	case l >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}

// priorityWriter writes the priority and a line as one. Whoever writes to it
// holds mu.
type priorityWriter struct {
	w        io.Writer
	mu       sync.Mutex
	priority string
}

// Write implements io.Writer.
func (p *priorityWriter) Write(line []byte) (int, error) {
	if _, err := p.w.Write(append([]byte(p.priority), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}
