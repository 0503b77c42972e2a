// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

func TestRecover(t *testing.T) {
	w := newWorld(t)
	code := int32(1)
	booted := func(s store.Sandbox) store.Sandbox {
		w.driver.running[s.ID], w.driver.files[s.ID] = spec(s, runtime.Spec{}.Token), "old"
		return s
	}
	running := booted(w.put("running", func(s *store.Sandbox) { s.Connected = true }))
	died := w.put("died", func(s *store.Sandbox) { s.Generation = 4 })
	exited := w.put("exited", func(s *store.Sandbox) { s.ExitCode = &code })
	starting := booted(w.put("starting", func(s *store.Sandbox) { s.Lifecycle, s.Generation = store.Starting, 2 }))
	unbooted := w.put("unbooted", func(s *store.Sandbox) { s.Lifecycle, s.Generation = store.Starting, 2 })
	stopping := booted(w.put("stopping", func(s *store.Sandbox) { s.Lifecycle = store.Stopping }))
	stopped := w.put("stopped", func(s *store.Sandbox) { s.Lifecycle = store.Stopped })
	booted(w.put("deleting", func(s *store.Sandbox) { s.Lifecycle = store.Deleting }))
	booted(w.put("creating", func(s *store.Sandbox) { s.Lifecycle = store.Creating }))

	w.driver.exit = func(e runtime.Exit) {
		if err := w.Exited(t.Context(), e.ID, e.Generation, e.Code); err != nil {
			t.Error(err)
		}
	}
	if err := w.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"died running", "exited running", "running running", "starting starting", "stopped stopped", "stopping stopped", "unbooted starting"}
	if got := w.sandboxes(); !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	calls := w.driver.take()
	slices.Sort(calls)
	want = []string{"adopt died", "adopt running", "adopt starting", "adopt unbooted", "delete", "delete", "disconnect", "disconnect", "disconnect", "stop"}
	if !slices.Equal(calls, want) {
		t.Errorf("the driver was asked %q, want %q", calls, want)
	}
	for _, s := range []store.Sandbox{died, unbooted} {
		if got := w.get(s.ID); got.ExitCode == nil || *got.ExitCode != runtime.CodeUnknown {
			t.Errorf("%s: exit code %v, want the unknown one", s.Name, got.ExitCode)
		}
	}
	for _, s := range []store.Sandbox{running, exited, stopped} {
		if got := w.get(s.ID); got.ResourceVersion != s.ResourceVersion {
			t.Errorf("%s was changed", s.Name)
		}
	}
	// A start that was cut off may not have handed the new token over.
	if got := w.driver.files[starting.ID]; got != "token of "+starting.ID+" 2" {
		t.Errorf("token of a starting sandbox: %q", got)
	}
	if got := w.driver.files[running.ID]; got != "old" {
		t.Errorf("token of a running sandbox: %q", got)
	}
	if _, up := w.driver.up(stopping.ID); up || len(w.driver.running) != 2 {
		t.Errorf("running: %v", w.driver.running)
	}
}

func TestRecoverNamesWhatItCouldNotFinish(t *testing.T) {
	w := newWorld(t)
	w.put("one", func(s *store.Sandbox) { s.Lifecycle = store.Stopping })
	w.put("two", func(s *store.Sandbox) { s.Lifecycle = store.Deleting })
	w.put("alien", func(s *store.Sandbox) { s.Driver = "gone" })
	w.driver.fail("stop", errDriver)
	err := w.Recover(t.Context())
	if !errors.Is(err, errDriver) || !errors.Is(err, ErrUnknownDriver) ||
		!strings.Contains(err.Error(), "sandbox default/one: ") || !strings.Contains(err.Error(), `driver gone: unknown driver "gone"`) {
		t.Errorf("error %v", err)
	}
	if got, want := w.sandboxes(), []string{"alien running", "one stopping"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// A sandbox that is started anew while its last generation is being adopted
// would look like a remnant to its driver.
func TestStartWaitsForAdoption(t *testing.T) {
	w := newWorld(t)
	s := w.put("web", func(s *store.Sandbox) {})
	w.driver.exit = func(e runtime.Exit) {
		if err := w.Exited(t.Context(), e.ID, e.Generation, e.Code); err != nil {
			t.Error(err)
		}
	}
	entered, release := w.driver.block("adopt web")
	defer release()
	recovered := make(chan error, 1)
	go func() { recovered <- w.Recover(t.Context()) }()
	<-entered
	start := async(func() ([]byte, bool, error) { return w.Start(t.Context(), store.Request{}, s.ID, version) })
	eventually(t, "the start waits", func() bool { return w.waiting(s.ID) == 2 })
	release()
	if err := <-recovered; err != nil {
		t.Fatal(err)
	}
	if got := <-start; got.err != nil {
		t.Fatal(got.err)
	}
	w.wantCalls("adopt web", "stop", "disconnect", "start")
}

// Whoever was asked for something else after the list was read is left alone.
func TestRecoverLooksAgain(t *testing.T) {
	w := newWorld(t)
	s := w.put("web", func(s *store.Sandbox) { s.Lifecycle = store.Stopping })
	unlock, err := w.lock(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	recovered := make(chan error, 1)
	go func() { recovered <- w.Recover(t.Context()) }()
	eventually(t, "it waits", func() bool { return w.waiting(s.ID) == 2 })
	if err := w.ask(t.Context(), s.ID, store.Running); err != nil {
		t.Fatal(err)
	}
	w.driver.running[s.ID] = spec(s, runtime.Spec{}.Token)
	unlock()
	if err := <-recovered; err != nil {
		t.Fatal(err)
	}
	if l := w.get(s.ID).Lifecycle; l != store.Running {
		t.Errorf("stored %q", l)
	}
}

// T26: what another gateway with the same store is at is left to it; what it has
// left behind is finished.
func TestRecoverLeavesOthersTheirOperations(t *testing.T) {
	w := newWorld(t)
	w.put("creating", func(s *store.Sandbox) { s.Lifecycle = store.Creating })
	w.put("deleting", func(s *store.Sandbox) { s.Lifecycle = store.Deleting })
	w.put("cut-off", func(s *store.Sandbox) { s.Lifecycle, s.Changed = store.Creating, time.Now().Add(-2*time.Hour) })
	w.cfg.Patience = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	recovered := make(chan error, 1)
	go func() { recovered <- w.Recover(ctx) }()
	eventually(t, "what was cut off is gone", func() bool { return len(w.sandboxes()) == 2 })
	cancel()
	if err := <-recovered; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got, want := w.sandboxes(), []string{"creating creating", "deleting deleting"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	w.cfg.Patience = 300 * time.Millisecond
	again := w.put("again", func(s *store.Sandbox) { s.Lifecycle = store.Deleting })
	// Somebody begins once more while Recover waits.
	go func() { recovered <- w.Recover(t.Context()) }()
	if _, err := w.update(t.Context(), again.ID, func(s *store.Sandbox) { s.Changed = time.Now().Add(time.Hour) }); err != nil {
		t.Fatal(err)
	}
	if err := <-recovered; err != nil {
		t.Error(err)
	}
	if got, want := w.sandboxes(), []string{"again deleting"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

func TestRecoverEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	s := w.put("web", func(*store.Sandbox) {})
	unlock, err := w.lock(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	recovered := make(chan error, 1)
	go func() { recovered <- w.Recover(ctx) }()
	eventually(t, "it waits", func() bool { return w.waiting(s.ID) == 2 })
	cancel()
	if err := <-recovered; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
