// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
	"github.com/sandbox-agent/sandbox-agent/report/wire"
)

// gateway is a gateway that does what the test says.
type gateway struct {
	supervisorv1.UnimplementedSupervisorServer
	grpc_health_v1.UnimplementedHealthServer
	t    testing.TB
	grpc *grpc.Server
	net  chan net.Conn // control streams for grpc
	done chan struct{}

	mu       sync.Mutex
	desired  []probe.Service
	mute     bool // says nothing to a new session
	deaf     bool // acknowledges nothing
	hellos   []mux.Hello
	sessions []*session // in the order of their Connect
	muxes    []*mux.Session
	refuse   *mux.HandshakeError
}

// session is one Connect.
type session struct {
	stream supervisorv1.Supervisor_ConnectServer
	end    chan error // its result, if the gateway ends it

	mu      sync.Mutex
	reports []*supervisorv1.Report
	at      []time.Time
	ended   bool
}

func newGateway(t testing.TB, desired ...probe.Service) *gateway {
	g := &gateway{t: t, desired: desired, grpc: grpc.NewServer(grpc.WaitForHandlers(true)), net: make(chan net.Conn), done: make(chan struct{})}
	supervisorv1.RegisterSupervisorServer(g.grpc, g)
	grpc_health_v1.RegisterHealthServer(g.grpc, g)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.grpc.Serve(g) }()
	t.Cleanup(func() { g.grpc.Stop(); <-served })
	return g
}

// Accept implements net.Listener.
func (g *gateway) Accept() (net.Conn, error) {
	select {
	case c := <-g.net:
		return c, nil
	case <-g.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (g *gateway) Close() error { close(g.done); return nil }

// Addr implements net.Listener.
func (g *gateway) Addr() net.Addr { return &net.UnixAddr{} }

// config is what the gateway's end of a session needs.
func (g *gateway) config() mux.Config {
	return mux.Config{Handle: func(s *mux.Stream) {
		select {
		case g.net <- s:
		case <-g.done:
			_ = s.Close()
		}
	}}
}

// ServeHTTP is the gateway's end of a handshake.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hello, refused := mux.ParseHello(r)
	g.mu.Lock()
	g.hellos = append(g.hellos, hello)
	if refused == nil {
		refused = g.refuse
	}
	g.mu.Unlock()
	if refused != nil {
		refused.Write(w)
		return
	}
	if s, err := mux.Upgrade(w, r, g.config()); err == nil {
		g.t.Cleanup(func() { _ = s.Close() })
	}
}

// pipe opens a session without handshake, in a bubble too.
func (g *gateway) pipe(_ context.Context, cfg mux.Config) (*mux.Session, error) {
	a, b := net.Pipe()
	s, err := mux.NewGatewaySession(b, g.config())
	if err != nil {
		return nil, err
	}
	g.t.Cleanup(func() { _ = s.Close() })
	g.set(func(g *gateway) { g.muxes = append(g.muxes, s) })
	return mux.NewAgentSession(a, cfg)
}

// Check implements grpc.health.v1.
func (g *gateway) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// Connect implements supervisor.v1.
func (g *gateway) Connect(stream supervisorv1.Supervisor_ConnectServer) error {
	s := &session{stream: stream, end: make(chan error, 1)}
	g.mu.Lock()
	g.sessions = append(g.sessions, s)
	mute, desired := g.mute, g.desired
	g.mu.Unlock()
	if !mute {
		if err := s.send(&supervisorv1.GatewayMessage_Desired{Desired: wire.EncodeDesired(1, desired)}); err != nil {
			return err
		}
	}
	received := make(chan error, 1)
	go func() { received <- g.receive(s) }()
	select {
	case err := <-received:
		s.close()
		return err
	case err := <-s.end:
		s.close()
		return err
	}
}

func (g *gateway) receive(s *session) error {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.reports = append(s.reports, m.GetReport())
		s.at = append(s.at, time.Now())
		s.mu.Unlock()
		g.mu.Lock()
		deaf := g.deaf
		g.mu.Unlock()
		if !deaf {
			if err := s.ack(m.GetReport().GetSequence()); err != nil {
				return err
			}
		}
	}
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// send sends a message, given as the oneof's wrapper.
func (s *session) send(m any) error {
	out := &supervisorv1.GatewayMessage{}
	switch m := m.(type) {
	case *supervisorv1.GatewayMessage_Desired:
		out.Message = m
	case *supervisorv1.GatewayMessage_Move:
		out.Message = m
	case *supervisorv1.GatewayMessage_Token:
		out.Message = m
	case *supervisorv1.GatewayMessage_Ack:
		out.Message = m
	}
	return s.stream.Send(out)
}

func (s *session) ack(sequence uint64) error {
	return s.send(&supervisorv1.GatewayMessage_Ack{Ack: &supervisorv1.Ack{Sequence: sequence}})
}

func (s *session) desire(t testing.TB, version uint64, services ...probe.Service) {
	t.Helper()
	if err := s.send(&supervisorv1.GatewayMessage_Desired{Desired: wire.EncodeDesired(version, services)}); err != nil {
		t.Fatal(err)
	}
}

func (s *session) move(t testing.TB, after time.Duration) {
	t.Helper()
	if err := s.send(&supervisorv1.GatewayMessage_Move{Move: &supervisorv1.Move{AfterMs: uint32(after.Milliseconds())}}); err != nil {
		t.Fatal(err)
	}
}

// open reports whether the session has not ended.
func (s *session) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// last returns the newest report, nil if there is none.
func (s *session) last() *supervisorv1.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) == 0 {
		return nil
	}
	return s.reports[len(s.reports)-1]
}

// set changes what the gateway does.
func (g *gateway) set(f func(*gateway)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g)
}

// all returns the sessions so far.
func (g *gateway) all() []*session {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*session(nil), g.sessions...)
}

// newest returns the newest session, which must be the nth.
func (g *gateway) newest(t testing.TB, n int) *session {
	t.Helper()
	all := g.all()
	if len(all) != n {
		t.Fatalf("%d sessions so far, want %d", len(all), n)
	}
	return all[n-1]
}

// rig is a link that runs in a bubble, with the loop that it tells what to
// probe. Every attempt passes, at once, unless outcome says otherwise.
type rig struct {
	*link
	logs    *testkit.Record
	ended   chan struct{}
	stop    func()
	mu      sync.Mutex
	outcome func(probe.Target) probe.Outcome
}

func newRig(t *testing.T, open func(context.Context, mux.Config) (*mux.Session, error)) *rig {
	logger, logs := testkit.Logs(t)
	return newRigWith(t, logger, logs, open)
}

func newRigWith(t *testing.T, logger *slog.Logger, logs *testkit.Record, open func(context.Context, mux.Config) (*mux.Session, error)) *rig {
	tracker := report.NewTracker()
	r := &rig{logs: logs, ended: make(chan struct{}), outcome: func(probe.Target) probe.Outcome { return probe.Pass }}
	scheduler := probe.NewScheduler(probe.SchedulerConfig{Sink: tracker, Attempt: r.attempt})
	r.link = &link{
		open: open, tokens: newTokens(Config{Logger: logger}), tracker: tracker, scheduler: scheduler,
		relays: newRelays(nil, tracker, logger), logger: logger, counts: &counts{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = scheduler.Run(ctx) })
	wg.Go(func() { r.run(ctx); close(r.ended) })
	r.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(r.stop)
	testkit.Wait()
	return r
}

func (r *rig) attempt(_ context.Context, target probe.Target) probe.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	a := probe.Attempt{Outcome: r.outcome(target), Reason: probe.OK, Code: 200, Start: now, End: now}
	if a.Outcome != probe.Pass {
		a.Reason, a.Code = probe.Timeout, 0
	}
	return a
}

func svc(name string, revision uint64, port uint16) probe.Service {
	return probe.Service{Name: name, Revision: revision, Target: probe.Target{Port: port}}
}
