// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/identity"
	"github.com/sandbox-agent/sandbox-agent/internal/latest"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// Limits of a session.
const (
	// MaxMessage is the largest control message, in bytes.
	MaxMessage = 1 << 20
	// ReportTimeout is how long a session may stay without a report.
	ReportTimeout = 15 * time.Second
)

// Issuer issues and checks sandbox tokens.
type Issuer interface {
	Issue(sandboxID string, generation uint64) (secret.String, time.Time, error)
	Verify(secret.String) (identity.Claims, error)
	TokenLifetime() time.Duration
}

// Config is what a Server needs.
type Config struct {
	Tokens    Issuer
	Directory Directory
	Cache     *health.Cache
	// Health is served as grpc.health.v1 on every session.
	Health  grpc_health_v1.HealthServer
	Metrics *Metrics
	Logger  *slog.Logger
}

// Server accepts agents.
type Server struct {
	cfg         Config
	spareLogger *slog.Logger // for what fails with every handshake
	grpc        *grpc.Server
	conns       *connListener
	ids         atomic.Uint64

	draining atomic.Bool // refuses new sessions

	mu       sync.Mutex
	stopped  bool // no session is started any more
	registry *Registry
	live     map[uint64]*live
	wg       sync.WaitGroup // of what works for the sessions in live
}

// New returns a Server; Run makes it work.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, spareLogger: obs.Sparing(cfg.Logger), registry: NewRegistry(), live: make(map[uint64]*live), conns: newConnListener()}
	s.grpc = grpc.NewServer(
		grpc.Creds(sessionCredentials{}),
		// Equal, default-sized windows turn bandwidth probing off; small shared
		// buffers keep an idle session small.
		grpc.InitialWindowSize(65535), grpc.InitialConnWindowSize(65535),
		grpc.ReadBufferSize(0), grpc.WriteBufferSize(2<<10),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxConcurrentStreams(8), grpc.MaxHeaderListSize(8<<10),
		grpc.ConnectionTimeout(mux.HandshakeTimeout),
		grpc.WaitForHandlers(true),
	)
	supervisorv1.RegisterSupervisorServer(s.grpc, &control{server: s})
	grpc_health_v1.RegisterHealthServer(s.grpc, cfg.Health)
	return s
}

// Run serves the control streams of all sessions until ctx ends, then closes
// the sessions and returns when they are gone.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(s.conns) }()
	<-ctx.Done()
	s.draining.Store(true)
	s.closeAll()
	s.grpc.Stop()
	err := <-served
	s.wg.Wait()
	return err
}

// Drain refuses new sessions from now on and asks every agent to move, spread
// over three quarters of the grace, so that those who can go elsewhere are gone
// before it ends.
func (s *Server) Drain(grace time.Duration) {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.live)
	i := 0
	for _, l := range s.live {
		after := time.Duration(float64(grace) * 0.75 * float64(i) / float64(n))
		l.move.Put(after)
		i++
	}
}

// Refresh makes the session of a sandbox, if there is one, send the stored
// desired state again.
func (s *Server) Refresh(sandboxID string) {
	if l := s.holder(sandboxID); l != nil {
		signal(l.refresh)
	}
}

// Close ends the session of a sandbox, if there is one: it was stopped or
// deleted.
func (s *Server) Close(sandboxID string) {
	if l := s.holder(sandboxID); l != nil {
		s.end(l)
	}
}

// Len returns the number of live sessions.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registry.Len()
}

func (s *Server) holder(sandboxID string) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[s.registry.Holder(sandboxID)]
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, l := range s.live { // those that take their time do so together
		s.wg.Go(func() { l.mux.Close() })
	}
}

var _ http.Handler = (*Server)(nil)

// live is one session that was accepted.
type live struct {
	id         uint64
	sandboxID  string
	generation uint64
	instance   string
	expires    time.Time // of the token it came with
	mux        *mux.Session
	control    atomic.Bool   // the control stream was opened
	connected  atomic.Bool   // Connect was called
	settled    chan struct{} // closed when mux is set and the claim decided
	refresh    chan struct{} // size 1: the stored desired state may have changed
	reported   chan struct{} // size 1: a report came
	move       *latest.Cell[time.Duration]
	held       bool // had its sandbox until it was released; under Server.mu
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// connListener feeds the control streams of sessions to the gRPC server.
type connListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newConnListener() *connListener {
	return &connListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// push hands a connection to the server; it reports false if that has ended.
func (c *connListener) push(conn net.Conn) bool {
	select {
	case c.conns <- conn:
		return true
	case <-c.done:
		return false
	}
}

// Accept implements net.Listener.
func (c *connListener) Accept() (net.Conn, error) {
	select {
	case conn := <-c.conns:
		return conn, nil
	case <-c.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (c *connListener) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}

// Addr implements net.Listener.
func (c *connListener) Addr() net.Addr { return &net.UnixAddr{Name: "sessions", Net: "session"} }
