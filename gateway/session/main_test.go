// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/identity"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// directory is a stored desired state in memory.
type directory struct {
	mu        sync.Mutex
	sandboxes map[string]Sandbox
	services  map[string][]Service
	connected []string
	exited    []exit
	fail      error         // of every look-up
	block     chan struct{} // Connected waits for its end, if it is set
}

type exit struct {
	sandboxID  string
	generation uint64
	code       int
}

func (d *directory) Sandbox(_ context.Context, id string) (Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.sandboxes[id]
	if !ok && d.fail == nil {
		return Sandbox{}, ErrNoSandbox
	}
	return s, d.fail
}

func (d *directory) Services(_ context.Context, id string) ([]Service, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.services[id], d.fail
}

func (d *directory) Connected(_ context.Context, id string, generation uint64, instance string) error {
	d.mu.Lock()
	s, block := d.sandboxes[id], d.block
	d.connected = append(d.connected, id+" "+instance)
	d.mu.Unlock()
	if block != nil {
		<-block
	}
	if !s.Admitted || s.Generation != generation {
		return ErrNoSandbox
	}
	return nil
}

func (d *directory) Exited(_ context.Context, id string, generation uint64, code int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.exited = append(d.exited, exit{id, generation, code})
	return nil
}

// change edits the directory.
func (d *directory) change(f func(*directory)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

// world is a Server that runs, with what it needs.
type world struct {
	*Server
	dir      *directory
	identity *identity.Identity
	cache    *health.Cache
	registry *prometheus.Registry
	logs     *testkit.Record
	stop     func() // Run, and waits for its end
}

const lifetime = time.Hour // of a token

func newIdentity(t testing.TB, now func() time.Time) *identity.Identity {
	t.Helper()
	id, err := identity.Open(identity.Config{Dir: t.TempDir(), TokenLifetime: lifetime, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newWorld(t testing.TB) *world {
	t.Helper()
	logger, logs := testkit.Logs(t)
	w := build(t, logger, newIdentity(t, time.Now))
	w.logs = logs
	return w
}

func build(t testing.TB, logger *slog.Logger, tokens Issuer) *world {
	t.Helper()
	w := &world{
		dir: &directory{
			sandboxes: map[string]Sandbox{"sandbox-1": {3, true}, "sandbox-2": {1, true}},
			services:  map[string][]Service{"sandbox-1": {service("web", 11, 8080)}},
		},
		cache: health.NewCache(), registry: prometheus.NewRegistry(),
	}
	w.identity, _ = tokens.(*identity.Identity)
	w.Server = New(Config{
		Tokens: tokens, Directory: w.dir, Cache: w.cache, Health: serving{},
		Metrics: NewMetrics(w.registry), Logger: logger,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func service(name string, revision uint64, port uint16) Service {
	return Service{ID: "id-" + name, Service: probe.Service{Name: name, Revision: revision, Target: probe.Target{Port: port}}}
}

// serving is a gateway that is ready.
type serving struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (serving) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// count returns the value of a counter with one label.
func (w *world) count(t testing.TB, name, label string) int {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 0 && label == "" || len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == label {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("there is no %s of %q", name, label)
	return 0
}

const (
	handshakes   = "sandbox_gateway_handshakes_total"
	conflicts    = "sandbox_gateway_identity_conflicts_total"
	ends         = "sandbox_gateway_sessions_ended_total"
	reports      = "sandbox_gateway_reports_total"
	observations = "sandbox_gateway_observations_total"
)

// answer is what a reader gets for a service of sandbox-1.
func (w *world) answer(serviceID string, revision uint64) health.Answer {
	return health.Evaluate(health.Endpoint{ID: serviceID, Revision: revision, Generation: 3}, health.Ready, w.cache.Slot("sandbox-1"), time.Now())
}

func (w *world) wantAnswer(t testing.TB, revision uint64, state probe.State, reason health.Reason) {
	t.Helper()
	if a := w.answer("id-web", revision); a.State != state || a.Reason != reason {
		t.Errorf("answered %v %q, want %v %q", a.State, a.Reason, state, reason)
	}
}

// eventually waits, in real time, until f holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("within 10 s not: %s", what)
		}
	}
}

var errStore = errors.New("the disk is gone")
