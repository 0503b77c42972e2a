// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

var (
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	dawn = noon.Add(-6 * time.Hour)
)

func code(c int32) *int32 { return &c }

func TestExited(t *testing.T) {
	base := store.Sandbox{Generation: 2, Changed: dawn}
	for name, c := range map[string]struct {
		lifecycle  store.Lifecycle
		stored     *int32
		generation uint64
		code       int
		want       *int32 // nil: unchanged
	}{
		"running":                            {store.Running, nil, 2, 3, code(3)},
		"starting":                           {store.Starting, nil, 2, 0, code(0)},
		"creating":                           {store.Creating, nil, 2, 1, code(1)},
		"unobserved":                         {store.Running, nil, 2, runtime.CodeUnknown, code(runtime.CodeUnknown)},
		"a known code stays":                 {store.Running, code(3), 2, 4, nil},
		"a known code stays though unknown":  {store.Running, code(0), 2, runtime.CodeUnknown, nil},
		"an unknown code is replaced":        {store.Running, code(runtime.CodeUnknown), 2, 7, code(7)},
		"an unknown code twice":              {store.Running, code(runtime.CodeUnknown), 2, runtime.CodeUnknown, nil},
		"an older generation":                {store.Running, nil, 1, 3, nil},
		"a newer generation, which is wrong": {store.Running, nil, 3, 3, nil},
		"it was asked to stop":               {store.Stopping, nil, 2, 143, nil},
		"it was stopped":                     {store.Stopped, nil, 2, 143, nil},
		"it is being deleted":                {store.Deleting, nil, 2, 143, nil},
	} {
		s := base
		s.Lifecycle, s.ExitCode = c.lifecycle, c.stored
		want := s
		if c.want != nil {
			want.ExitCode, want.Changed = c.want, noon
		}
		got, changed := exited(s, c.generation, c.code, noon)
		if changed != (c.want != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v %+v, want %+v", name, changed, got, want)
		}
	}
}

func TestConnected(t *testing.T) {
	up := store.Sandbox{Generation: 2, Lifecycle: store.Running, Connected: true, Instance: "a", Changed: dawn}
	for name, c := range map[string]struct {
		edit       func(*store.Sandbox)
		generation uint64
		instance   string
		want       func(*store.Sandbox) // nil: unchanged
		err        error
	}{
		"first session": {
			func(s *store.Sandbox) { s.Connected, s.Instance = false, "" }, 2, "a",
			func(s *store.Sandbox) { s.Changed = noon }, nil,
		},
		"first session of a start": {
			func(s *store.Sandbox) { s.Lifecycle, s.Connected, s.Instance = store.Starting, false, "" }, 2, "a",
			func(s *store.Sandbox) { s.Changed = noon }, nil,
		},
		"faster than the create": {
			func(s *store.Sandbox) { s.Lifecycle, s.Connected, s.Instance = store.Creating, false, "" }, 2, "a",
			func(s *store.Sandbox) { s.Lifecycle, s.Changed = store.Creating, noon }, nil,
		},
		"it comes again": {func(*store.Sandbox) {}, 2, "a", nil, nil},
		"another life of the agent": {
			func(*store.Sandbox) {}, 2, "b",
			func(s *store.Sandbox) { s.Instance = "b" }, nil,
		},
		"after an exit": {
			func(s *store.Sandbox) { s.ExitCode = code(1) }, 2, "b",
			func(s *store.Sandbox) { s.Instance, s.Changed = "b", noon }, nil,
		},
		"an older generation": {func(*store.Sandbox) {}, 1, "a", nil, ErrNotAdmitted},
		"stopping":            {func(s *store.Sandbox) { s.Lifecycle = store.Stopping }, 2, "a", nil, ErrNotAdmitted},
		"stopped":             {func(s *store.Sandbox) { s.Lifecycle = store.Stopped }, 2, "a", nil, ErrNotAdmitted},
		"deleting":            {func(s *store.Sandbox) { s.Lifecycle = store.Deleting }, 2, "a", nil, ErrNotAdmitted},
	} {
		s := up
		c.edit(&s)
		want := s
		if c.want != nil {
			want = up
			c.want(&want)
		}
		got, changed, err := connected(s, c.generation, c.instance, noon)
		if changed != (c.want != nil) || !errors.Is(err, c.err) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v %v %+v, want %v %+v", name, changed, err, got, c.err, want)
		}
	}
}

func TestExitAndReturn(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	ctx := t.Context()
	step := func(name string, do func() error, wantCode *int32, wantWrite bool) {
		t.Helper()
		before := w.get(s.ID)
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		after := w.get(s.ID)
		if wrote := after.ResourceVersion != before.ResourceVersion; wrote != wantWrite || !reflect.DeepEqual(after.ExitCode, wantCode) {
			t.Errorf("%s: wrote %v, stored %+v", name, wrote, after)
		}
	}
	connect := func(instance string) func() error {
		return func() error { return w.Connected(ctx, s.ID, 1, instance) }
	}
	exit := func(c int) func() error { return func() error { return w.Exited(ctx, s.ID, 1, c) } }
	step("connected", connect("a"), nil, true)
	step("connected again", connect("a"), nil, false)
	step("exited", exit(9), code(9), true)
	step("the driver saw it too", exit(runtime.CodeUnknown), code(9), false)
	step("a new life", connect("b"), nil, true)
	if got := w.get(s.ID); got.Instance != "b" || got.Lifecycle != store.Running {
		t.Errorf("stored %+v", got)
	}
}

func TestSeenOfNothing(t *testing.T) {
	w := newWorld(t)
	if err := w.Exited(t.Context(), uuid.NewString(), 1, 0); err != nil {
		t.Errorf("the exit of a sandbox that was deleted: %v", err)
	}
	if err := w.Connected(t.Context(), uuid.NewString(), 1, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a session of a sandbox that was deleted: %v", err)
	}
}
