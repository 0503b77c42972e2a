// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/identity"
	"github.com/sandbox-agent/sandbox-agent/internal/latest"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// drainRetry is when a refused agent should try again while the gateway
// drains: somebody else answers then.
const drainRetry = 5 * time.Second

// ServeHTTP answers one handshake: 101 and a session, or a plain HTTP error.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refused := s.open(r, func(cfg mux.Config) (*mux.Session, error) { return mux.Upgrade(w, r, cfg) })
	if refused != nil {
		refused.Write(w)
	}
}

// open makes a session of a handshake, unless it returns why not. upgrade takes
// the handshake's connection over.
func (s *Server) open(r *http.Request, upgrade func(mux.Config) (*mux.Session, error)) *mux.HandshakeError {
	l, refused := s.admit(r)
	if refused != nil {
		s.cfg.Metrics.handshake(refused.Status)
		return refused
	}
	m, err := upgrade(mux.Config{Handle: func(stream *mux.Stream) { s.handle(l, stream) }})
	if err != nil {
		s.cfg.Metrics.handshake(http.StatusBadRequest)
		s.cfg.Logger.Debug("upgrade failed", "error", err)
		return nil
	}
	l.mux = m
	s.start(context.WithoutCancel(r.Context()), l)
	return nil
}

// admit authenticates a handshake and decides whether it may go on.
func (s *Server) admit(r *http.Request) (*live, *mux.HandshakeError) {
	if s.draining.Load() {
		return nil, &mux.HandshakeError{Status: http.StatusServiceUnavailable, Reason: "the gateway is draining", RetryAfter: drainRetry}
	}
	hello, refused := mux.ParseHello(r)
	if refused != nil {
		return nil, refused
	}
	claims, err := s.cfg.Tokens.Verify(hello.Token)
	if err != nil {
		return nil, &mux.HandshakeError{Status: http.StatusUnauthorized, Reason: err.Error()}
	}
	if refused := s.authorize(r, claims); refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	d := s.registry.Decide(claims.SandboxID, claims.Generation, hello.Instance, time.Now())
	s.mu.Unlock()
	switch {
	case d.Outdated:
		return nil, outdated()
	case !d.Accept:
		s.conflict(claims.SandboxID, hello.Instance)
		return nil, &mux.HandshakeError{Status: http.StatusConflict, Reason: "another live session holds the sandbox", RetryAfter: d.RetryAfter}
	}
	return &live{
		id: s.ids.Add(1), sandboxID: claims.SandboxID, generation: claims.Generation,
		instance: hello.Instance, expires: claims.Expires,
		settled: make(chan struct{}), refresh: make(chan struct{}, 1), reported: make(chan struct{}, 1),
		move: latest.New[time.Duration](),
	}, nil
}

func forbidden(reason string) *mux.HandshakeError {
	return &mux.HandshakeError{Status: http.StatusForbidden, Reason: reason}
}

func outdated() *mux.HandshakeError {
	return forbidden("the token is for an earlier start of the sandbox")
}

// authorize checks what a valid token is for.
func (s *Server) authorize(r *http.Request, claims identity.Claims) *mux.HandshakeError {
	if want := r.Header.Get(mux.HeaderSandbox); want != "" && want != claims.SandboxID {
		return forbidden("the token is for another sandbox")
	}
	sandbox, err := s.cfg.Directory.Sandbox(r.Context(), claims.SandboxID)
	switch {
	case errors.Is(err, ErrNoSandbox):
		return forbidden("the sandbox does not exist")
	case err != nil:
		s.spareLogger.Warn("sandbox look-up failed", "error", err)
		return &mux.HandshakeError{Status: http.StatusServiceUnavailable, Reason: "the store does not answer", RetryAfter: drainRetry}
	case sandbox.Generation != claims.Generation:
		return outdated()
	case !sandbox.Admitted:
		return forbidden("the sandbox is stopped")
	}
	return nil
}

// start makes a session the holder of its sandbox, and watches its end. ctx
// outlives the handshake.
func (s *Server) start(ctx context.Context, l *live) {
	d, displaced := s.claim(l)
	defer close(l.settled)
	if d.Conflict {
		s.conflict(l.sandboxID, l.instance)
	}
	if !d.Accept { // somebody was faster since admit, or the server stops
		s.cfg.Metrics.handshake(lateRefusal(d))
		l.mux.Close()
		return
	}
	s.cfg.Metrics.handshake(http.StatusSwitchingProtocols)
	s.cfg.Logger.Info("session opened", "sandbox_id", l.sandboxID, "instance", l.instance, "session", l.id)
	if displaced != nil {
		s.wg.Go(func() { displaced.mux.Close() }) // the winner does not wait for it
	}
	s.wg.Go(func() { s.record(ctx, l) })
	s.wg.Go(func() { s.watch(l) })
	s.wg.Done() // of claim
}

// lateRefusal is the status that a session would have got if what refuses it
// had been known before it was upgraded.
func lateRefusal(d Decision) int {
	switch {
	case d.Conflict:
		return http.StatusConflict
	case d.Outdated:
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}

// claim asks the registry and, if it agrees, makes the session known and holds
// the server's end up.
func (s *Server) claim(l *live) (d Decision, displaced *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return Decision{}, nil
	}
	if d = s.registry.Claim(l.sandboxID, l.id, l.generation, l.instance, time.Now()); !d.Accept {
		return d, nil
	}
	displaced = s.live[d.Displaced]
	s.live[l.id] = l
	s.cfg.Cache.Connected(l.sandboxID, l.id, l.generation, l.instance)
	if s.draining.Load() { // since admit
		l.move.Put(0)
	}
	s.wg.Add(1)
	return d, displaced
}

// record stores that a session was accepted. It ends the session if the sandbox
// was asked for something else since.
func (s *Server) record(ctx context.Context, l *live) {
	err := s.cfg.Directory.Connected(ctx, l.sandboxID, l.generation, l.instance)
	switch {
	case errors.Is(err, ErrNoSandbox):
		s.end(l)
	case err != nil:
		s.cfg.Logger.Warn("marking a sandbox connected failed", "sandbox_id", l.sandboxID, "error", err)
	}
}

// watch waits for a session's end and gives its place up. It ends a session
// that stays without reports.
func (s *Server) watch(l *live) {
	silence := time.NewTimer(ReportTimeout)
	defer silence.Stop()
	silent := false
	for open := true; open; {
		select {
		case <-l.reported:
			silence.Reset(ReportTimeout)
		case <-silence.C:
			silent = true
			s.end(l)
		case <-l.mux.Done():
			open = false
		}
	}
	reason := endReason(l.mux.Err(), s.release(l), silent)
	s.mu.Lock()
	delete(s.live, l.id)
	s.mu.Unlock()
	s.cfg.Metrics.ended(reason)
	attrs := []any{"sandbox_id", l.sandboxID, "session", l.id, "reason", reason, "error", l.mux.Err()}
	if silent { // no report for 15 s
		s.cfg.Logger.Warn("session closed", attrs...)
		return
	}
	s.cfg.Logger.Info("session closed", attrs...)
}

// end closes a session. Whoever asks finds no session from now on, however long
// the connection takes to end.
func (s *Server) end(l *live) {
	s.release(l)
	l.mux.Close()
}

// release gives a session's place up. It reports whether the session had it
// until its own end.
func (s *Server) release(l *live) (held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.held = s.registry.Release(l.sandboxID, l.id) || l.held
	s.cfg.Cache.Disconnected(l.sandboxID, l.id, time.Now())
	return l.held
}

// endReason says in one word why a session has ended.
func endReason(err error, held, silent bool) string {
	switch {
	case silent:
		return "silent"
	case !held:
		return "displaced"
	case errors.Is(err, mux.ErrProtocol):
		return "protocol"
	case errors.Is(err, mux.ErrStalled):
		return "stalled"
	case errors.Is(err, mux.ErrSessionClosed):
		return "closed"
	}
	return "lost"
}

func (s *Server) conflict(sandboxID, instance string) {
	s.cfg.Metrics.conflicts.Inc()
	s.cfg.Logger.Warn("two agents claim one sandbox", "sandbox_id", sandboxID, "instance", instance)
}

// handle takes a stream that the agent opened: only one, for control, is
// expected.
func (s *Server) handle(l *live, stream *mux.Stream) {
	<-l.settled
	if stream.Kind() != mux.KindControl || !l.control.CompareAndSwap(false, true) {
		stream.Close()
		return
	}
	if !s.conns.push(&controlConn{Conn: stream, live: l}) {
		stream.Close()
	}
}
