// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

var errDriver = errors.New("the driver cannot")

// observe makes the cache know a live session of a sandbox.
func (w *world) observe(id string) {
	w.cache.Connected(id, 1, 1, "instance")
	w.cache.Reported(id, 1, 1, []health.Observation{{ServiceID: "s"}}, map[string]bool{"s": true})
}

func (w *world) observed(id string) bool { return !reflect.DeepEqual(w.cache.Slot(id), health.Slot{}) }

// What is asked is stored before it is done, and what is done after it is so.
func TestStopOrder(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	w.driver.before = func(context.Context, string, string) error {
		if l := w.get(s.ID).Lifecycle; l != store.Stopping {
			t.Errorf("the driver is asked while %q is stored", l)
		}
		return nil
	}
	response, _, err := w.Stop(t.Context(), store.Request{}, s.ID, version)
	if err != nil {
		t.Fatal(err)
	}
	w.wantCalls("stop", "disconnect")
	got := w.get(s.ID)
	if want, _ := version(got); got.Lifecycle != store.Stopped || got.Generation != 1 || string(response) != string(want) {
		t.Errorf("stored %+v, answered %q", got, response)
	}
	// Again: nothing is done and nothing is written.
	if _, _, err := w.Stop(t.Context(), newRequest("Stop"), s.ID, version); err != nil {
		t.Fatal(err)
	}
	w.wantCalls()
	if again := w.get(s.ID); !reflect.DeepEqual(again, got) {
		t.Errorf("stored %+v, want it unchanged: %+v", again, got)
	}
}

func TestStopThatFailsCanBeRepeated(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	w.driver.fail("stop", errDriver)
	req := newRequest("Stop")
	if _, _, err := w.Stop(t.Context(), req, s.ID, version); !errors.Is(err, errDriver) {
		t.Fatal(err)
	}
	w.wantCalls("stop", "disconnect")
	if l := w.get(s.ID).Lifecycle; l != store.Stopping {
		t.Errorf("stored %q", l)
	}
	w.driver.before = nil
	if _, replayed, err := w.Stop(t.Context(), req, s.ID, version); err != nil || replayed {
		t.Fatal(replayed, err)
	}
	w.wantCalls("stop", "disconnect")
}

func TestStartBeginsANewGeneration(t *testing.T) {
	code := int32(3)
	for name, prepare := range map[string]func(w *world, s store.Sandbox){
		"stopped": func(w *world, s store.Sandbox) {
			if _, _, err := w.Stop(t.Context(), store.Request{}, s.ID, version); err != nil {
				t.Fatal(err)
			}
		},
		"exited": func(w *world, s store.Sandbox) {
			if err := w.Exited(t.Context(), s.ID, 1, int(code)); err != nil {
				t.Fatal(err)
			}
		},
		"stop failed": func(w *world, s store.Sandbox) {
			w.driver.fail("stop", errDriver)
			if _, _, err := w.Stop(t.Context(), store.Request{}, s.ID, version); err == nil {
				t.Fatal("the stop did not fail")
			}
			w.driver.before = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.create("web")
			if err := w.Connected(t.Context(), s.ID, 1, "old"); err != nil {
				t.Fatal(err)
			}
			w.observe(s.ID)
			prepare(w, s)
			w.driver.take()
			w.driver.before = func(_ context.Context, op, id string) error {
				if op == "start" && w.observed(id) {
					t.Error("observations of the old generation are there when the new one boots")
				}
				return nil
			}
			response, _, err := w.Start(t.Context(), store.Request{}, s.ID, version)
			if err != nil {
				t.Fatal(err)
			}
			w.wantCalls("stop", "disconnect", "start")
			got := w.get(s.ID)
			if got.Lifecycle != store.Starting || got.Generation != 2 || got.Connected || got.ExitCode != nil || got.Instance != "" {
				t.Errorf("stored %+v", got)
			}
			if want, _ := version(got); string(response) != string(want) {
				t.Errorf("answered %q, want %q", response, want)
			}
			if spec, _ := w.driver.up(s.ID); spec.Generation != 2 || spec.Token.Reveal() != "token of "+s.ID+" 2" {
				t.Errorf("booted generation %d", spec.Generation)
			}
		})
	}
}

func TestStartOfWhatIsUpDoesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	w.observe(s.ID)
	req := newRequest("Start")
	for _, replay := range []bool{false, true} {
		if _, replayed, err := w.Start(t.Context(), req, s.ID, version); err != nil || replayed != replay {
			t.Fatalf("replayed %v, %v", replayed, err)
		}
	}
	w.wantCalls()
	if got := w.get(s.ID); !reflect.DeepEqual(got, s) || !w.observed(s.ID) {
		t.Errorf("stored %+v, want it unchanged: %+v", got, s)
	}
}

func TestStartThatDoesNotBootIsStoppedAndNotRemembered(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	if _, _, err := w.Stop(t.Context(), store.Request{}, s.ID, version); err != nil {
		t.Fatal(err)
	}
	w.driver.fail("start", errBoot)
	req := newRequest("Start")
	if _, _, err := w.Start(t.Context(), req, s.ID, version); !errors.Is(err, errBoot) {
		t.Fatal(err)
	}
	if got := w.get(s.ID); got.Lifecycle != store.Stopped {
		t.Errorf("stored %+v", got)
	}
	w.driver.before = nil
	if _, replayed, err := w.Start(t.Context(), req, s.ID, version); err != nil || replayed {
		t.Fatalf("tried again: replayed %v, %v", replayed, err)
	}
	if got := w.get(s.ID); got.Lifecycle != store.Starting || got.Generation != 3 {
		t.Errorf("stored %+v", got)
	}
}

func TestDeleteOrder(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	if _, _, err := w.store.Mutate(t.Context(), store.Request{}, func(tx store.Tx) ([]byte, error) {
		_, err := tx.InsertService(store.Service{SandboxID: s.ID, Port: 80})
		return nil, err
	}); err != nil {
		t.Fatal(err)
	}
	w.observe(s.ID)
	w.driver.before = func(context.Context, string, string) error {
		if l := w.get(s.ID).Lifecycle; l != store.Deleting {
			t.Errorf("the driver is asked while %q is stored", l)
		}
		return errDriver
	}
	if _, _, err := w.Delete(t.Context(), newRequest("Delete"), s.ID, version); !errors.Is(err, errDriver) {
		t.Fatal(err)
	}
	for name, op := range map[string]func(context.Context, store.Request, string, Encode) ([]byte, bool, error){"stop": w.Stop, "start": w.Start} {
		if _, _, err := op(t.Context(), store.Request{}, s.ID, version); !errors.Is(err, ErrDeleting) {
			t.Errorf("%s of what is being deleted: %v", name, err)
		}
	}
	w.wantCalls("delete", "disconnect")

	w.driver.before = nil
	req := newRequest("Delete")
	response, _, err := w.Delete(t.Context(), req, s.ID, func(s store.Sandbox) ([]byte, error) { return []byte(s.ID), nil })
	if err != nil || string(response) != s.ID {
		t.Fatalf("answered %q, %v", response, err)
	}
	w.wantCalls("delete", "disconnect")
	if all, _ := w.store.Services(t.Context(), store.ServiceQuery{AllSandboxes: true}); len(w.sandboxes())+len(all) != 0 || w.observed(s.ID) {
		t.Errorf("left %q, %+v, observed %v", w.sandboxes(), all, w.observed(s.ID))
	}
	if response, replayed, err := w.Delete(t.Context(), req, s.ID, version); err != nil || !replayed || string(response) != s.ID {
		t.Errorf("asked again: %q, %v, %v", response, replayed, err)
	}
	if _, _, err := w.Delete(t.Context(), newRequest("Delete"), s.ID, version); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another deletion: %v", err)
	}
	w.wantCalls()
}

func TestOperationsOnNothing(t *testing.T) {
	w := newWorld(t)
	for name, op := range map[string]func(context.Context, store.Request, string, Encode) ([]byte, bool, error){"stop": w.Stop, "start": w.Start, "delete": w.Delete} {
		if _, _, err := op(t.Context(), newRequest(name), uuid.NewString(), version); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.wantCalls()
}

func TestReplayActsOnNothing(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	req := newRequest("Stop")
	first, _, err := w.Stop(t.Context(), req, s.ID, version)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Start(t.Context(), newRequest("Start"), s.ID, version); err != nil {
		t.Fatal(err)
	}
	w.driver.take()
	again, replayed, err := w.Stop(t.Context(), req, s.ID, version)
	if err != nil || !replayed || string(again) != string(first) {
		t.Errorf("answered %q, %v, %v, want %q again", again, replayed, err, first)
	}
	mismatch := req
	mismatch.Payload[0]++
	if _, _, err := w.Stop(t.Context(), mismatch, s.ID, version); !errors.Is(err, store.ErrRequestMismatch) {
		t.Errorf("another payload: %v", err)
	}
	w.wantCalls()
	if l := w.get(s.ID).Lifecycle; l != store.Starting {
		t.Errorf("stored %q", l)
	}
}

// Operations on one sandbox take turns; those on another do not wait.
func TestStopDuringStart(t *testing.T) {
	w := newWorld(t)
	s, other := w.create("web"), w.create("other")
	if _, _, err := w.Stop(t.Context(), store.Request{}, s.ID, version); err != nil {
		t.Fatal(err)
	}
	w.driver.take()
	entered, release := w.driver.block("start")
	defer release()
	start := async(func() ([]byte, bool, error) { return w.Start(t.Context(), store.Request{}, s.ID, version) })
	<-entered
	stop := async(func() ([]byte, bool, error) { return w.Stop(t.Context(), store.Request{}, s.ID, version) })
	eventually(t, "the stop waits", func() bool { return w.waiting(s.ID) == 2 })
	if _, _, err := w.Stop(t.Context(), store.Request{}, other.ID, version); err != nil {
		t.Fatal(err)
	}
	w.wantCalls("stop", "disconnect", "start", "stop", "disconnect") // the last two of the other
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.lock(ctx, s.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a turn with an ended context: %v", err)
	}
	release()
	if a, b := <-start, <-stop; a.err != nil || b.err != nil {
		t.Fatal(a.err, b.err)
	}
	w.wantCalls("stop", "disconnect")
	if got := w.get(s.ID); got.Lifecycle != store.Stopped || got.Generation != 2 {
		t.Errorf("stored %+v", got)
	}
}

func TestOperationsGoOnWhenTheirCallerLeaves(t *testing.T) {
	for op, after := range map[string]string{"stop": "web stopped", "start": "web starting", "delete": ""} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			s := w.create("web")
			run := map[string]func(context.Context, store.Request, string, Encode) ([]byte, bool, error){
				"stop": w.Stop, "start": w.Start, "delete": w.Delete,
			}[op]
			if op == "start" {
				if _, _, err := w.Stop(t.Context(), store.Request{}, s.ID, version); err != nil {
					t.Fatal(err)
				}
			}
			entered, release := w.driver.block(op)
			defer release()
			ctx, leave := context.WithCancel(t.Context())
			done := async(func() ([]byte, bool, error) { return run(ctx, store.Request{}, s.ID, version) })
			<-entered
			leave()
			if got := <-done; !errors.Is(got.err, context.Canceled) {
				t.Errorf("the caller got %+v", got)
			}
			release()
			w.Wait(t.Context())
			got := ""
			if all := w.sandboxes(); len(all) > 0 {
				got = all[0]
			}
			if got != after {
				t.Errorf("stored %q, want %q", got, after)
			}
		})
	}
}

// A gateway that has to stop hard leaves the rest to its successor.
func TestWaitCutsOff(t *testing.T) {
	w := newWorld(t)
	s := w.create("web")
	entered, release := w.driver.block("stop")
	defer release()
	done := async(func() ([]byte, bool, error) { return w.Stop(t.Context(), store.Request{}, s.ID, version) })
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	w.Wait(ctx)
	if got := <-done; !errors.Is(got.err, context.Canceled) {
		t.Errorf("cut off: %+v", got)
	}
	if l := w.get(s.ID).Lifecycle; l != store.Stopping {
		t.Errorf("stored %q", l)
	}
	if _, _, err := w.Stop(t.Context(), store.Request{}, s.ID, version); !errors.Is(err, context.Canceled) {
		t.Errorf("an operation of a gateway that was cut off: %v", err)
	}
	w.driver.before = nil
	w.restart()
	if err := w.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := w.get(s.ID).Lifecycle; l != store.Stopped {
		t.Errorf("stored %q", l)
	}
}
