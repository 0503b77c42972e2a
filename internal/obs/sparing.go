// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package obs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// sparingPeriod is how long a line that was written speaks for its like.
	sparingPeriod = time.Minute
	// sparingErrors is how many different errors a message may have in that
	// time: some texts hold what differs from request to request.
	sparingErrors = 8
)

// Sparing returns a logger for those who serve requests, of which one fault
// fails thousands. A record above debug that has the attribute "error" is
// written if its message was not with that error within a minute, else at debug
// alone. The next line of the message says how many these were (left_out).
// Other records are written as they are.
func Sparing(logger *slog.Logger) *slog.Logger {
	return slog.New(sparing{logger.Handler(), &spared{messages: make(map[string]*sparedMessage)}})
}

type sparing struct {
	slog.Handler
	spared *spared
}

// Handle implements slog.Handler.
func (h sparing) Handle(ctx context.Context, r slog.Record) error {
	err, ok := errorOf(r)
	if !ok || r.Level <= slog.LevelDebug {
		return h.Handler.Handle(ctx, r)
	}
	out, omitted := h.spared.admit(r.Message, err, r.Time)
	switch {
	case !out && !h.Handler.Enabled(ctx, slog.LevelDebug):
		return nil
	case !out:
		r.Level = slog.LevelDebug
	case omitted > 0:
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", omitted))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparing{h.Handler.WithAttrs(attrs), h.spared}
}

// WithGroup implements slog.Handler.
func (h sparing) WithGroup(name string) slog.Handler {
	return sparing{h.Handler.WithGroup(name), h.spared}
}

func errorOf(r slog.Record) (text string, ok bool) {
	r.Attrs(func(a slog.Attr) bool {
		if ok = a.Key == "error"; ok {
			text = a.Value.Resolve().String()
		}
		return !ok
	})
	return text, ok
}

// spared is what was written lately, by message, which are constants and few.
type spared struct {
	mu       sync.Mutex
	messages map[string]*sparedMessage
}

// sparedMessage is a message since a line of it opened a period.
type sparedMessage struct {
	began   time.Time
	errors  map[string]struct{} // that were written since
	omitted int                 // since the last line
}

// admit decides whether a record is written, and how many of its message were
// not since the last one.
func (s *spared) admit(message, err string, now time.Time) (out bool, omitted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.messages[message]
	if m == nil {
		m = &sparedMessage{errors: make(map[string]struct{})}
		s.messages[message] = m
	}
	if now.Sub(m.began) >= sparingPeriod {
		clear(m.errors)
		m.began = now
	}
	if _, known := m.errors[err]; known || len(m.errors) == sparingErrors {
		m.omitted++
		return false, 0
	}
	m.errors[err] = struct{}{}
	omitted, m.omitted = m.omitted, 0
	return true, omitted
}
