// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// full is a sandbox with every field set that a caller can set.
func full() store.Sandbox {
	code := int32(137)
	return store.Sandbox{
		ID: "0b8f3c5e-6a1d-4f7e-9c2b-1d2e3f405162", Workspace: "default", Name: "full",
		Labels: map[string]string{"team": "infra", "quote\"'": "ä\n%s"}, Annotations: map[string]string{"a": ""},
		Driver: "local", LogLevel: "debug", Image: "base:1",
		Environment: map[string]string{"PATH": "/bin"}, Command: []string{"sh", "-c", "exit 1", ""}, TTY: true,
		Generation: 3, Lifecycle: store.Stopping, Connected: true, ExitCode: &code, Instance: "i-1",
		Changed: time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC),
	}
}

func TestSandboxRoundTrip(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		c := newClock()
		e.config.Now = c.now
		h := e.open(t)
		want := full()
		got := h.addSandbox(t, want)
		want.ResourceVersion, want.Created = 1, c.now().Truncate(time.Microsecond)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("inserted\n got %+v\nwant %+v", got, want)
		}
		for what, read := range map[string]func() (store.Sandbox, error){
			"by name": func() (store.Sandbox, error) { return h.Sandbox(t.Context(), "default", "full") },
			"by id":   func() (store.Sandbox, error) { return h.SandboxByID(t.Context(), want.ID) },
			"in a transaction by name": func() (s store.Sandbox, err error) {
				h.do(t, func(tx store.Tx) error { s, err = tx.Sandbox("default", "full"); return err })
				return s, err
			},
			"in a transaction by id": func() (s store.Sandbox, err error) {
				h.do(t, func(tx store.Tx) error { s, err = tx.SandboxByID(want.ID); return err })
				return s, err
			},
		} {
			if got, err := read(); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n got %+v, %v\nwant %+v", what, got, err, want)
			}
		}
	})
}

func TestSandboxDefaults(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		s := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "n", Labels: map[string]string{}, Command: []string{}})
		if len(s.ID) != 36 || s.Generation != 1 || s.Lifecycle != store.Running || s.Created.IsZero() || !s.Changed.Equal(s.Created) {
			t.Errorf("defaults: %+v", s)
		}
		if s.Labels != nil || s.Command != nil || s.ExitCode != nil {
			t.Errorf("empty values must come back as nil: %+v", s)
		}
		if got, err := h.Sandbox(t.Context(), "w", "n"); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("read\n got %+v, %v\nwant %+v", got, err, s)
		}
	})
}

func TestSandboxUpdate(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		c := newClock()
		e.config.Now = c.now
		h := e.open(t)
		s := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "n"})
		update := func(s store.Sandbox) (out store.Sandbox) {
			h.do(t, func(tx store.Tx) (err error) { out, err = tx.UpdateSandbox(s); return err })
			return out
		}

		c.advance(time.Minute)
		next := s
		next.Labels, next.Connected, next.Instance = map[string]string{"a": "b"}, true, "i-2"
		next.Workspace, next.Name, next.Created = "other", "other", c.now()
		got := update(next)
		if got.Workspace != "w" || got.Name != "n" || !got.Created.Equal(s.Created) || !got.Changed.Equal(s.Changed) {
			t.Errorf("an update must keep identity, and Changed while the lifecycle stays: %+v", got)
		}
		if got.ResourceVersion <= s.ResourceVersion || !got.Connected || got.Instance != "i-2" || got.Labels["a"] != "b" {
			t.Errorf("updated: %+v", got)
		}

		c.advance(time.Minute)
		got.Lifecycle = store.Stopping
		stopping := update(got)
		if !stopping.Changed.Equal(c.now().Truncate(time.Microsecond)) {
			t.Errorf("Changed = %v, want the instant of the change %v", stopping.Changed, c.now())
		}
		stopping.Lifecycle, stopping.Changed = store.Stopped, c.now().Add(time.Second)
		stopped := update(stopping)
		if want := c.now().Add(time.Second).Truncate(time.Microsecond); !stopped.Changed.Equal(want) {
			t.Errorf("Changed = %v, want the caller's %v", stopped.Changed, want)
		}
		if read, err := h.Sandbox(t.Context(), "w", "n"); err != nil || !reflect.DeepEqual(read, stopped) {
			t.Errorf("read\n got %+v, %v\nwant %+v", read, err, stopped)
		}
		unchanged := update(stopped)
		if unchanged.ResourceVersion <= stopped.ResourceVersion {
			t.Errorf("every update of a sandbox bumps its version: %d after %d", unchanged.ResourceVersion, stopped.ResourceVersion)
		}
	})
}

func TestSandboxErrors(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		s := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "n"})
		stale := s
		stale.ResourceVersion--
		insert := func(s store.Sandbox) func(store.Tx) error {
			return func(tx store.Tx) error { _, err := tx.InsertSandbox(s); return err }
		}
		update := func(s store.Sandbox) func(store.Tx) error {
			return func(tx store.Tx) error { _, err := tx.UpdateSandbox(s); return err }
		}
		for _, test := range []struct {
			name string
			fn   func(store.Tx) error
			want error
		}{
			{"insert a taken name", insert(store.Sandbox{Workspace: "w", Name: "n"}), store.ErrExists},
			{"insert a taken id", insert(store.Sandbox{ID: s.ID, Workspace: "w", Name: "m"}), store.ErrExists},
			{"insert the name in another workspace", insert(store.Sandbox{Workspace: "v", Name: "n"}), nil},
			{"insert text with a NUL", insert(store.Sandbox{Workspace: "w", Name: "a\x00b"}), store.ErrInvalid},
			{"insert a label that is not UTF-8", insert(store.Sandbox{Workspace: "w", Name: "m", Labels: map[string]string{"\xff": ""}}), store.ErrInvalid},
			{"insert an argument with a NUL", insert(store.Sandbox{Workspace: "w", Name: "m", Command: []string{"a", "\x00"}}), store.ErrInvalid},
			{"insert a generation of 64 bits", insert(store.Sandbox{Workspace: "w", Name: "m", Generation: math.MaxUint64}), store.ErrInvalid},
			{"update with an older version", update(stale), store.ErrConflict},
			{"update with no version", update(store.Sandbox{ID: s.ID}), store.ErrConflict},
			{"update with a version of 64 bits", update(store.Sandbox{ID: s.ID, ResourceVersion: math.MaxUint64}), store.ErrConflict},
			{"update nothing", update(store.Sandbox{ID: "none"}), store.ErrNotFound},
			{"delete nothing", func(tx store.Tx) error { return tx.DeleteSandbox("none") }, store.ErrNotFound},
			{"read nothing by name", func(tx store.Tx) error { _, err := tx.Sandbox("w", "none"); return err }, store.ErrNotFound},
			{"read nothing by id", func(tx store.Tx) error { _, err := tx.SandboxByID("none"); return err }, store.ErrNotFound},
		} {
			if err := h.try(test.fn); !errors.Is(err, test.want) {
				t.Errorf("%s: error %v, want %v", test.name, err, test.want)
			}
		}
		for what, err := range map[string]error{
			"by name": second(h.Sandbox(t.Context(), "w", "none")),
			"by id":   second(h.SandboxByID(t.Context(), "none")),
		} {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("read %s: error %v, want ErrNotFound", what, err)
			}
		}
		if got, err := h.Sandbox(t.Context(), "w", "n"); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("failed writes changed the sandbox:\n got %+v, %v\nwant %+v", got, err, s)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A sentinel does not spoil the transaction: what is done after it commits.
func TestSentinelLeavesTransactionUsable(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "n"})
		h.do(t, func(tx store.Tx) error {
			if _, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: "n"}); !errors.Is(err, store.ErrExists) {
				t.Errorf("error %v, want ErrExists", err)
			}
			_, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: "m"})
			return err
		})
		if _, err := h.Sandbox(t.Context(), "w", "m"); err != nil {
			t.Errorf("second insert: %v", err)
		}
	})
}

// What fn did before it failed is gone, and its versions may be handed out again
// since nobody has seen them committed.
func TestRollback(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		wanted := errors.New("no")
		err := h.try(func(tx store.Tx) error {
			if _, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: "n"}); err != nil {
				t.Error(err)
			}
			return wanted
		})
		if !errors.Is(err, wanted) {
			t.Errorf("error %v, want the function's own", err)
		}
		if _, err := h.Sandbox(t.Context(), "w", "n"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after a rollback: %v, want ErrNotFound", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = h.try(func(tx store.Tx) error { panic("in fn") })
		}()
		h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "after a panic"})
	})
}
