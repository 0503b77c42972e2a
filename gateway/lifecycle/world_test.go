// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a Manager over a real store and a driver that boots nothing.
type world struct {
	t      testing.TB
	dir    string
	store  *store.Store
	cache  *health.Cache
	driver *fakeDriver
	*Manager
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), cache: health.NewCache()}
	w.driver = &fakeDriver{running: make(map[string]runtime.Spec), files: make(map[string]string)}
	s, err := store.Open(context.Background(), store.Config{Dir: w.dir, Logger: testkit.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	w.store = s
	w.restart()
	t.Cleanup(func() {
		w.Manager.Wait(context.Background())
		if len(w.turns) != 0 || len(w.ops) != 0 {
			t.Errorf("%d turns and %d operations are left", len(w.turns), len(w.ops))
		}
		s.Close()
	})
	return w
}

// restart makes a Manager that knows only what is stored.
func (w *world) restart() {
	w.Manager = New(Config{
		Store: w.store, Drivers: map[string]runtime.Driver{"fake": w.driver}, Cache: w.cache, Logger: testkit.Logger(w.t),
		Issue: func(id string, generation uint64) (secret.String, time.Time, error) {
			return secret.New(fmt.Sprintf("token of %s %d", id, generation)), time.Time{}, nil
		},
		Disconnect: func(id string) { w.driver.log("disconnect", id) },
	})
}

// fakeDriver notes what it is asked. before, if set, runs first and may fail
// the call; it runs without locks.
type fakeDriver struct {
	before func(ctx context.Context, op, id string) error
	exit   func(runtime.Exit) // for what does not run when it is adopted

	mu      sync.Mutex
	calls   []string
	running map[string]runtime.Spec
	files   map[string]string // token by sandbox
}

func (d *fakeDriver) log(op, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, op)
}

func (d *fakeDriver) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

func (d *fakeDriver) up(id string) (runtime.Spec, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.running[id]
	return s, ok
}

func (d *fakeDriver) do(ctx context.Context, op, id string, then func()) error {
	d.log(op, id)
	if d.before != nil {
		if err := d.before(ctx, op, id); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	then()
	return nil
}

func (d *fakeDriver) Name() string { return "fake" }

func (d *fakeDriver) Start(ctx context.Context, s runtime.Spec) error {
	return d.do(ctx, "start", s.ID, func() { d.running[s.ID], d.files[s.ID] = s, s.Token.Reveal() })
}

func (d *fakeDriver) Stop(ctx context.Context, id string) error {
	return d.do(ctx, "stop", id, func() { delete(d.running, id) })
}

func (d *fakeDriver) Delete(ctx context.Context, id string) error {
	return d.do(ctx, "delete", id, func() { delete(d.running, id); delete(d.files, id) })
}

func (d *fakeDriver) RenewToken(id string, token secret.String) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.files[id]; !ok {
		return fs.ErrNotExist
	}
	d.files[id] = token.Reveal()
	return nil
}

func (d *fakeDriver) Adopt(ctx context.Context, specs []runtime.Spec) error {
	for _, s := range specs {
		if err := d.do(ctx, "adopt "+s.Name, s.ID, func() {}); err != nil {
			return err
		}
		if _, up := d.up(s.ID); !up {
			d.exit(runtime.Exit{ID: s.ID, Generation: s.Generation, Code: runtime.CodeUnknown})
		}
	}
	return nil
}

func (d *fakeDriver) TokenFile(id string) string { return "/tokens/" + id }
func (d *fakeDriver) Close() error               { return nil }

// fail makes calls of op fail with err.
func (d *fakeDriver) fail(op string, err error) {
	d.before = func(_ context.Context, o, _ string) error {
		if o == op {
			return err
		}
		return nil
	}
}

// block holds calls of op until the returned function is called; entered gets
// one value for each.
func (d *fakeDriver) block(op string) (entered <-chan struct{}, release func()) {
	in, gate := make(chan struct{}, 10), make(chan struct{})
	d.before = func(ctx context.Context, o, _ string) error {
		if o != op {
			return nil
		}
		in <- struct{}{}
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return in, sync.OnceFunc(func() { close(gate) })
}

func record(name string) store.Sandbox {
	return store.Sandbox{
		ID: uuid.NewString(), Workspace: "default", Name: name, Driver: "fake",
		Command: []string{"serve"}, Environment: map[string]string{"A": "b"}, LogLevel: "debug",
	}
}

func newRequest(method string) store.Request {
	return store.Request{ID: uuid.NewString(), Method: method}
}

// version encodes a record by what changes with every write.
func version(s store.Sandbox) ([]byte, error) {
	return fmt.Appendf(nil, "%s %s generation %d version %d", s.Name, s.Lifecycle, s.Generation, s.ResourceVersion), nil
}

func (w *world) create(name string) store.Sandbox {
	w.t.Helper()
	s := record(name)
	if _, _, err := w.Create(context.Background(), store.Request{}, s, nil, encodeNew); err != nil {
		w.t.Fatal(err)
	}
	w.driver.take()
	return w.get(s.ID)
}

func encodeNew(s store.Sandbox, services []store.Service) ([]byte, error) {
	b, err := version(s)
	return fmt.Appendf(b, " %d services", len(services)), err
}

func (w *world) get(id string) store.Sandbox {
	w.t.Helper()
	s, err := w.store.SandboxByID(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// put stores a record as it is, as an earlier gateway process left it.
func (w *world) put(name string, edit func(*store.Sandbox)) store.Sandbox {
	w.t.Helper()
	s := record(name)
	s.Lifecycle, s.Generation = store.Running, 1
	edit(&s)
	if _, _, err := w.store.Mutate(context.Background(), store.Request{}, func(tx store.Tx) (_ []byte, err error) {
		s, err = tx.InsertSandbox(s)
		return nil, err
	}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) sandboxes() []string {
	w.t.Helper()
	all, err := w.store.Sandboxes(context.Background(), store.SandboxQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name+" "+string(s.Lifecycle))
	}
	return names
}

func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	if got := w.driver.take(); !slices.Equal(got, want) {
		w.t.Errorf("the driver was asked %q, want %q", got, want)
	}
}

// eventually polls what cannot be waited for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// waiting reports how many hold or want the turn of a key.
func (w *world) waiting(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if turn := w.turns[key]; turn != nil {
		return turn.waiting
	}
	return 0
}

type outcome struct {
	response string
	replayed bool
	err      error
}

// async runs an operation in a goroutine.
func async(op func() ([]byte, bool, error)) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		response, replayed, err := op()
		c <- outcome{string(response), replayed, err}
	}()
	return c
}
