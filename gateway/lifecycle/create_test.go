// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

var errBoot = errors.New("no boot today")

func TestCreateBootsWhatItStored(t *testing.T) {
	w := newWorld(t)
	s := record("web")
	services := []store.Service{{Name: "", Port: 80}, {Name: "api", Port: 90}}
	response, replayed, err := w.Create(t.Context(), newRequest("Create"), s, services, encodeNew)
	if err != nil || replayed {
		t.Fatal(replayed, err)
	}
	stored := w.get(s.ID)
	if want, _ := encodeNew(stored, services); string(response) != string(want) {
		t.Errorf("answered %q, want %q", response, want)
	}
	if stored.Lifecycle != store.Running || stored.Generation != 1 || stored.Connected || stored.ExitCode != nil {
		t.Errorf("stored %+v", stored)
	}
	if list, _ := w.store.ServicesOf(t.Context(), s.ID); len(list) != 2 || list[1].Name != "api" || list[1].Port != 90 {
		t.Errorf("services %+v", list)
	}
	spec, _ := w.driver.up(s.ID)
	want := runtime.Spec{
		ID: s.ID, Workspace: "default", Name: "web", Generation: 1, Token: secret.New("token of " + s.ID + " 1"),
		Command: s.Command, Environment: s.Environment, LogLevel: "debug",
	}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("booted %+v, want %+v", spec, want)
	}
	if got := w.TokenFile(stored); got != "/tokens/"+s.ID {
		t.Errorf("token file %q", got)
	}
	w.wantCalls("start")
}

func TestCreateThatDoesNotBootLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.driver.fail("start", errBoot)
	req, s := newRequest("Create"), record("web")
	services := []store.Service{{Name: "api", Port: 90}}
	if _, _, err := w.Create(t.Context(), req, s, services, encodeNew); !errors.Is(err, errBoot) {
		t.Fatalf("error %v, want the driver's", err)
	}
	if left := w.sandboxes(); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	if list, _ := w.store.ServicesOf(t.Context(), s.ID); len(list) != 0 {
		t.Errorf("left services %+v", list)
	}
	w.wantCalls("start", "delete", "disconnect")
	// A failure is not remembered.
	w.driver.before = nil
	if _, replayed, err := w.Create(t.Context(), req, s, services, encodeNew); err != nil || replayed {
		t.Errorf("tried again: replayed %v, %v", replayed, err)
	}
}

func TestCreateWhoseCommitFailsUndoesTheBoot(t *testing.T) {
	db := "gateway.db"
	w := newWorld(t)
	move := func(from, to string) {
		if err := os.Rename(filepath.Join(w.dir, from), filepath.Join(w.dir, to)); err != nil {
			t.Error(err)
		}
	}
	w.driver.before = func(_ context.Context, op, _ string) error {
		if op == "delete" {
			move("away", db)
		}
		return nil
	}
	s := record("web")
	_, _, err := w.Create(t.Context(), newRequest("Create"), s, nil, func(store.Sandbox, []store.Service) ([]byte, error) {
		move(db, "away") // the store sees that before it commits
		return nil, nil
	})
	if !errors.Is(err, store.ErrReplaced) {
		t.Fatalf("error %v, want the commit's", err)
	}
	if left := w.sandboxes(); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	if _, up := w.driver.up(s.ID); up {
		t.Error("the sandbox runs")
	}
	w.wantCalls("start", "delete", "disconnect")
}

func TestCreateRefusals(t *testing.T) {
	w := newWorld(t)
	first := w.create("web")
	other := record("web")
	if _, _, err := w.Create(t.Context(), store.Request{}, other, nil, encodeNew); !errors.Is(err, store.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	other = record("api")
	other.Driver = "none"
	if _, _, err := w.Create(t.Context(), store.Request{}, other, nil, encodeNew); !errors.Is(err, ErrUnknownDriver) {
		t.Errorf("an unknown driver: %v", err)
	}
	if _, up := w.driver.up(first.ID); !up || !reflect.DeepEqual(w.get(first.ID), first) {
		t.Error("the first sandbox was disturbed")
	}
	if all := w.sandboxes(); len(all) != 1 {
		t.Errorf("stored %q", all)
	}
	w.wantCalls()
}

// What a boot takes, an image from afar perhaps, nobody else waits for. Its
// agent, which may be faster than Start returns, is admitted.
func TestCreateDoesNotHoldTheStoreWhileItBoots(t *testing.T) {
	w := newWorld(t)
	s := record("web")
	w.driver.before = func(ctx context.Context, op, id string) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if stored := w.get(id); stored.Lifecycle != store.Creating || !Admits(stored) {
			t.Errorf("stored while it boots: %+v", stored)
		}
		return w.Connected(ctx, id, 1, "early")
	}
	if _, _, err := w.Create(t.Context(), store.Request{}, s, nil, encodeNew); err != nil {
		t.Fatal(err)
	}
	if got := w.get(s.ID); got.Lifecycle != store.Running || !got.Connected || got.Instance != "early" {
		t.Errorf("stored %+v", got)
	}
}

func TestOneRequestBootsOnce(t *testing.T) {
	w := newWorld(t)
	entered, release := w.driver.block("start")
	defer release()
	req := newRequest("Create")
	try := func() <-chan outcome {
		return async(func() ([]byte, bool, error) { return w.Create(t.Context(), req, record("web"), nil, encodeNew) })
	}
	first := try()
	<-entered
	second := try()
	mismatch := req
	mismatch.Payload[0]++
	third := async(func() ([]byte, bool, error) { return w.Create(t.Context(), mismatch, record("other"), nil, encodeNew) })
	eventually(t, "three wait", func() bool { return w.waiting("request "+req.ID) == 3 })
	release()
	a, b, c := <-first, <-second, <-third
	if a.err != nil || a.replayed || b.err != nil || !b.replayed || a.response != b.response {
		t.Errorf("answers %+v and %+v, want the same, the second replayed", a, b)
	}
	if !errors.Is(c.err, store.ErrRequestMismatch) {
		t.Errorf("another payload: %+v", c)
	}
	w.wantCalls("start")
	if all := w.sandboxes(); len(all) != 1 {
		t.Errorf("stored %q", all)
	}
}

func TestCreateGoesOnWhenItsCallerLeaves(t *testing.T) {
	w := newWorld(t)
	entered, release := w.driver.block("start")
	defer release()
	ctx, leave := context.WithCancel(t.Context())
	req, s := newRequest("Create"), record("web")
	done := async(func() ([]byte, bool, error) { return w.Create(ctx, req, s, nil, encodeNew) })
	<-entered
	leave()
	if got := <-done; !errors.Is(got.err, context.Canceled) {
		t.Errorf("the caller got %+v", got)
	}
	release()
	response, replayed, err := w.Create(t.Context(), req, record("web"), nil, encodeNew)
	if err != nil || !replayed {
		t.Fatalf("asked again: replayed %v, %v", replayed, err)
	}
	if want, _ := encodeNew(w.get(s.ID), nil); string(response) != string(want) {
		t.Errorf("answered %q, want %q", response, want)
	}
	w.wantCalls("start")
}
