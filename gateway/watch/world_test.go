// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a Server with records and a health cache that tests write. Most
// of it is for bubbles.
type world struct {
	*Server
	t     testing.TB
	cache *health.Cache
	logs  *testkit.Record
	end   context.CancelFunc // of Run
	ended chan struct{}

	mu       sync.Mutex
	fail     error // of every read of a record
	version  uint64
	records  map[string]store.Sandbox   // by id
	services map[string][]store.Service // by sandbox id
	sessions map[string]uint64          // by sandbox id
	reports  uint64
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, cache: health.NewCache(), ended: make(chan struct{}),
		records: make(map[string]store.Sandbox), services: make(map[string][]store.Service), sessions: make(map[string]uint64),
	}
	logger, logs := testkit.Logs(t)
	w.logs = logs
	w.Server = New(Config{
		Records: w, Slots: w.cache, Started: time.Now(), Logger: logger,
		URLs: api.URLs{Scheme: "http", Domain: "sandbox.localhost"},
	})
	w.cache.OnChange(w.Touch)
	return w
}

// run starts the server in a bubble; it ends with the test.
func (w *world) run() *world {
	w.start()
	testkit.Wait()
	return w
}

func (w *world) start() *world {
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	go func() {
		defer close(w.ended)
		if err := w.Run(ctx); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}()
	w.t.Cleanup(func() { end(); <-w.ended })
	return w
}

func (w *world) failing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail
}

func (w *world) setFail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

// Sandboxes implements Records.
func (w *world) Sandboxes(_ context.Context, q store.SandboxQuery) ([]store.Sandbox, error) {
	if err := w.failing(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.SortedFunc(maps.Values(w.records), func(a, b store.Sandbox) int {
		return cmp.Or(strings.Compare(a.Workspace, b.Workspace), strings.Compare(a.Name, b.Name))
	})
	if q.After.Set {
		all = slices.DeleteFunc(all, func(s store.Sandbox) bool {
			return cmp.Or(strings.Compare(s.Workspace, q.After.Workspace), strings.Compare(s.Name, q.After.Name)) <= 0
		})
	}
	return all[:min(len(all), q.Limit)], nil
}

// SandboxByID implements Records.
func (w *world) SandboxByID(_ context.Context, id string) (store.Sandbox, error) {
	if err := w.failing(); err != nil {
		return store.Sandbox{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.records[id]
	if !ok {
		return s, fmt.Errorf("reading: %w", store.ErrNotFound)
	}
	return s, nil
}

// ServicesOf implements Records.
func (w *world) ServicesOf(_ context.Context, id string) ([]store.Service, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.services[id]), nil
}

// put stores a sandbox of that name, whose id is "id-" and the name.
func (w *world) put(name string, edit func(*store.Sandbox)) {
	w.mu.Lock()
	id := "id-" + name
	s, ok := w.records[id]
	if !ok {
		s = store.Sandbox{ID: id, Workspace: "default", Name: name, Lifecycle: store.Running, Generation: 1, Connected: true}
	}
	if edit != nil {
		edit(&s)
	}
	w.records[id] = s
	w.mu.Unlock()
	w.Stored(id)
}

func (w *world) drop(name string) {
	w.mu.Lock()
	delete(w.records, "id-"+name)
	delete(w.services, "id-"+name)
	w.mu.Unlock()
	w.Stored("id-" + name)
}

// expose stores a service, or changes its configuration.
func (w *world) expose(sandbox string, names ...string) {
	w.mu.Lock()
	id := "id-" + sandbox
	for _, name := range names {
		w.version++
		list := slices.DeleteFunc(w.services[id], func(s store.Service) bool { return s.Name == name })
		list = append(list, store.Service{
			ID: serviceID(sandbox, name), SandboxID: id, Workspace: w.records[id].Workspace, Sandbox: sandbox, Name: name,
			Port: 8080, ResourceVersion: w.version, Revision: w.version,
		})
		slices.SortFunc(list, func(a, b store.Service) int { return strings.Compare(a.Name, b.Name) })
		w.services[id] = list
	}
	w.mu.Unlock()
	w.Stored(id)
}

func (w *world) unexpose(sandbox, name string) {
	w.mu.Lock()
	id := "id-" + sandbox
	w.services[id] = slices.DeleteFunc(w.services[id], func(s store.Service) bool { return s.Name == name })
	w.mu.Unlock()
	w.Stored(id)
}

func serviceID(sandbox, name string) string { return "service-" + sandbox + "-" + name }

// connect gives a sandbox a session of an agent.
func (w *world) connect(sandbox, instance string) {
	w.mu.Lock()
	w.sessions["id-"+sandbox]++
	session := w.sessions["id-"+sandbox]
	w.mu.Unlock()
	w.cache.Connected("id-"+sandbox, session, 1, instance)
}

func (w *world) disconnect(sandbox string) {
	w.mu.Lock()
	session := w.sessions["id-"+sandbox]
	w.mu.Unlock()
	w.cache.Disconnected("id-"+sandbox, session, time.Now())
}

// report says the same of all services of a sandbox, edited by edit.
func (w *world) report(sandbox string, state probe.State, reason probe.Reason, edit ...func(*health.Observation)) {
	w.mu.Lock()
	id := "id-" + sandbox
	w.reports++
	generation, session := w.reports, w.sessions[id]
	services := slices.Clone(w.services[id])
	w.mu.Unlock()
	now := time.Now()
	outcome := probe.Pass
	if reason != probe.OK {
		outcome = probe.Fail
	}
	var obs []health.Observation
	desired := make(map[string]bool)
	for _, svc := range services {
		desired[svc.ID] = true
		o := health.Observation{
			ServiceID: svc.ID, Instance: w.cache.Slot(id).Instance, Revision: svc.Revision, State: state, Outcome: outcome,
			Reason: reason, Code: 200, Latest: now, Conclusive: now, Since: now, Latency: time.Millisecond,
		}
		for _, f := range edit {
			f(&o)
		}
		obs = append(obs, o)
	}
	if !w.cache.Reported(id, session, generation, obs, desired) {
		w.t.Errorf("a report of %s was refused", sandbox)
	}
}

// healthy makes a sandbox with services that are healthy.
func (w *world) healthy(sandbox string, services ...string) {
	w.put(sandbox, nil)
	w.expose(sandbox, services...)
	w.connect(sandbox, "instance-1")
	w.report(sandbox, probe.Healthy, probe.OK)
}

// fakeStream is the server's end of a watch, and its client.
type fakeStream struct {
	grpc.ServerStream
	ctx     context.Context
	leave   context.CancelFunc
	result  chan error
	stopped chan struct{} // while it can be received from, Send blocks

	mu       sync.Mutex
	messages []*sandboxv1.WatchServicesResponse
	at       []time.Time
	taken    int
	client   mirror
}

func (f *fakeStream) Context() context.Context { return f.ctx }

func (f *fakeStream) Send(m *sandboxv1.WatchServicesResponse) error {
	select {
	case f.stopped <- struct{}{}: // of a size that is never reached unless it is stopped
		<-f.stopped
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages, f.at = append(f.messages, m), append(f.at, time.Now())
	f.client.take(m)
	return nil
}

// watch begins a watch; it ends with the test.
func (w *world) watch(r *sandboxv1.WatchServicesRequest) *fakeStream {
	ctx, leave := context.WithCancel(context.Background())
	f := &fakeStream{ctx: ctx, leave: leave, result: make(chan error, 1), stopped: make(chan struct{}, 1)}
	go func() { f.result <- w.WatchServices(r, f) }()
	w.t.Cleanup(leave)
	testkit.Wait()
	return f
}

// stop makes Send block until go on is called.
func (f *fakeStream) stop() (goOn func()) {
	f.stopped <- struct{}{}
	return func() { <-f.stopped }
}

// news returns what was sent since the last call, without heartbeats: for each
// message the services and removals, and how long ago it came.
func (f *fakeStream) news() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, m := range f.messages[f.taken:] {
		for _, n := range m.GetRemoved() {
			list = append(list, fmt.Sprintf("%d gone", n))
		}
		for _, s := range m.GetServices() {
			list = append(list, words(s))
		}
	}
	f.taken = len(f.messages)
	return list
}

// words renders a service as "sandbox/name STATE Reason".
func words(s *sandboxv1.WatchedService) string {
	h := s.GetService().GetHealth()
	return fmt.Sprintf("%s/%s %s %s", s.GetService().GetEndpoint().GetSandbox(), s.GetService().GetEndpoint().GetName(), stateWord(h.GetState()), h.GetReason())
}

// mirror is a client that keeps what it was told.
type mirror struct {
	services map[uint32]string
	complete bool
	sequence uint64
	faults   []string
}

func (c *mirror) take(m *sandboxv1.WatchServicesResponse) {
	if c.services == nil {
		c.services = make(map[uint32]string)
	}
	if c.sequence++; m.GetSequence() != c.sequence {
		c.faults = append(c.faults, fmt.Sprintf("sequence %d, want %d", m.GetSequence(), c.sequence))
	}
	if c.complete && !m.GetComplete() {
		c.faults = append(c.faults, "no longer complete")
	}
	c.complete = m.GetComplete()
	for _, n := range m.GetRemoved() {
		if _, ok := c.services[n]; !ok {
			c.faults = append(c.faults, fmt.Sprintf("%d is gone and never was", n))
		}
		delete(c.services, n)
	}
	for _, s := range m.GetServices() {
		c.services[s.GetNumber()] = words(s)
	}
	for _, a := range m.GetAges() {
		if _, ok := c.services[a.GetNumber()]; !ok {
			c.faults = append(c.faults, fmt.Sprintf("age of %d, which is not there", a.GetNumber()))
		}
	}
}

// holds returns what the client holds, and its complaints.
func (f *fakeStream) holds() (services, faults []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Values(f.client.services)), f.client.faults
}

// want compares lists, in any order.
func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	got = slices.Sorted(slices.Values(got))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
