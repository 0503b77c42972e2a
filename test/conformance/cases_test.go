// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// driver makes calls with one client; README.md has the protocol.
type driver interface {
	do(ctx context.Context, call object) object
	close() error
}

// client is one of those that are held to the list.
type client struct {
	name  string
	start func(t *testing.T, s *stage) driver
}

func clients() []client {
	return []client{
		{"go", func(t *testing.T, s *stage) driver { return newGoDriver(t, s) }},
		{"cli", func(_ *testing.T, s *stage) driver { return &cliDriver{stage: s} }},
		{"typescript", func(t *testing.T, s *stage) driver {
			return startDriver(t, s, "sdk/typescript/dist/conformance/driver.js", "node")
		}},
		{"rust", func(t *testing.T, s *stage) driver {
			return startDriver(t, s, "sdk/rust/target/debug/examples/conformance")
		}},
	}
}

func TestCases(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes")
	}
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each with a gateway of its own: much is waiting
			s := newStage(t)
			for _, b := range behaviours(t) {
				t.Run(b.Name, func(t *testing.T) {
					if why := b.Skip[c.name]; why != "" {
						t.Skip(why)
					}
					play(t, s, c, b)
				})
			}
		})
	}
}

// play drives one client through one case.
func play(t *testing.T, s *stage, c client, b behaviour) {
	d := c.start(t, s)
	defer func() {
		if err := d.close(); err != nil {
			t.Errorf("the driver: %v", err)
		}
	}()
	w := newWorld(t, s, c.name[:2]+"-"+b.Name)
	names := map[string]any{"$sandbox": w.sandbox, "$port": float64(w.port), "$uuid2": uuid.NewString(), "$uuid": uuid.NewString()}
	for i, st := range b.Steps {
		if st.World != "" {
			if err := w.change(t.Context(), st); err != nil {
				t.Fatalf("step %d, %s: %v", i, st.World, err)
			}
			continue
		}
		call, want := fill(any(st.Do), names).(object), fill(any(st.Want), names).(object)
		if c.name == "cli" {
			want = coarse(want)
		}
		if wrong := try(t.Context(), d, call, want, st); wrong != "" {
			t.Fatalf("step %d, %s: %s", i, shown(call), wrong)
		}
	}
}

// try makes a call, again and again if it has time to become right.
func try(ctx context.Context, d driver, call, want object, st step) string {
	wrong := ""
	look := func() (bool, string) {
		began := time.Now()
		got := d.do(ctx, call)
		took := time.Since(began)
		wrong = compare(want, got, "")
		if wrong == "" && st.AtMostMS > 0 && took > time.Duration(st.AtMostMS)*time.Millisecond {
			wrong = fmt.Sprintf("took %v", took)
		}
		if wrong != "" {
			wrong += " in " + shown(got)
		}
		return wrong == "", wrong
	}
	if ok, _ := look(); ok || st.WithinMS == 0 {
		return wrong
	}
	if err := kit.Until(ctx, time.Duration(st.WithinMS)*time.Millisecond, "the answer", look); err != nil {
		return err.Error()
	}
	return ""
}

func shown(v any) string {
	content, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// idle is how long an idle watch lasts.
func idle(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CONFORMANCE_IDLE")
	if text == "" {
		return 40 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// T08, T24: a watch of a quiet healthy service tells nothing, and keeps its
// connection: a gateway that a client pings too often would end it.
func TestIdleWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time")
	}
	s := newStage(t)
	lasts := idle(t)
	w := newWorld(t, s, "idle")
	setUp := newGoDriver(t, s)
	defer setUp.close()
	for _, wrong := range []string{
		try(t.Context(), setUp, object{"op": "create_sandbox", "sandbox": "idle", "exposures": []any{object{"service": "docs", "port": float64(w.port)}}}, object{"ok": object{}}, step{}),
		fmtError(w.serve([]int{200})),
		fmtError(w.startAgent(t.Context())),
		try(t.Context(), setUp, object{"op": "get", "sandbox": "idle", "service": "docs"}, object{"ok": object{"state": "healthy"}}, step{WithinMS: 10_000}),
	} {
		if wrong != "" {
			t.Fatal(wrong)
		}
	}
	// All at once: the clients are idle, and so is the machine.
	t.Run("all", func(t *testing.T) {
		for _, c := range clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				d := c.start(t, s)
				defer d.close()
				if wrong := compare(object{"ok": object{"services": []any{object{"state": "healthy"}}}}, d.do(t.Context(), object{"op": "watch_open", "sandbox": "idle"}), ""); wrong != "" {
					t.Fatal(wrong)
				}
				call := object{"op": "watch_idle", "ms": float64(lasts.Milliseconds())}
				if wrong := compare(object{"ok": object{"updates": 0.0}}, d.do(t.Context(), call), ""); wrong != "" {
					t.Error(wrong)
				}
				call = object{"op": "watch_until", "service": "docs", "state": "healthy", "limit_ms": 1000.0}
				if wrong := compare(object{"ok": object{"http_status": 200.0}}, d.do(t.Context(), call), ""); wrong != "" {
					t.Error(wrong)
				}
			})
		}
	})
}

func fmtError(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
