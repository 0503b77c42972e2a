// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

const (
	// relayGrace is what open relays get when the agent was asked to stop.
	relayGrace = 5 * time.Second
	// desiredGrace is how long a relay waits for its service to become known: a
	// gateway may open it right after it has sent the service.
	desiredGrace = 500 * time.Millisecond
)

// relays connects streams of the gateway to services on the loopback. A stream
// names its service; where that is, the desired state alone tells.
type relays struct {
	ops     uint16 // the agent's own port, which no relay reaches
	tracker *report.Tracker
	logger  *slog.Logger
	dial    func(ctx context.Context, addrs []netip.AddrPort) (*net.TCPConn, mux.RelayStatus)

	mu       sync.Mutex
	ports    map[string]uint16 // by service name
	changed  chan struct{}     // closed and replaced when ports changes
	open     int
	stopping bool
	grace    time.Duration
	closed   bool
	idle     chan struct{} // of size 1; told when open becomes 0
	wg       sync.WaitGroup
}

func newRelays(ops net.Addr, tracker *report.Tracker, logger *slog.Logger) *relays {
	r := &relays{
		tracker: tracker, logger: logger, dial: dialService,
		changed: make(chan struct{}), idle: make(chan struct{}, 1),
	}
	if tcp, ok := ops.(*net.TCPAddr); ok {
		r.ops = uint16(tcp.Port)
	}
	return r
}

// desire takes a desired state over.
func (r *relays) desire(services []probe.Service) {
	ports := make(map[string]uint16, len(services))
	for _, s := range services {
		ports[s.Name] = s.Target.Port
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ports = ports
	close(r.changed)
	r.changed = make(chan struct{})
}

// handle serves one stream; it implements mux.Config.Handle. The relay ends
// with ctx or its session.
func (r *relays) handle(ctx context.Context, stream *mux.Stream) {
	status := r.enter()
	if status != mux.RelayAccepted {
		r.refuse(stream, status)
		return
	}
	defer r.leave()
	name := string(stream.Header())
	port, status := r.find(ctx, name)
	var conn *net.TCPConn
	if status == mux.RelayAccepted {
		conn, status = r.dial(ctx, r.addresses(name, port))
	}
	if status != mux.RelayAccepted {
		r.refuse(stream, status)
		return
	}
	if err := stream.Answer(status); err != nil {
		mux.Abort(stream)
		mux.Abort(conn)
		return
	}
	if err := mux.Join(ctx, mux.RelayPatience(), stream, conn); err != nil {
		r.logger.Debug("a relay broke", "error", err)
	}
}

func (r *relays) refuse(stream *mux.Stream, status mux.RelayStatus) {
	r.logger.Debug("a relay was refused", "reason", status.String())
	if stream.Answer(status) != nil {
		mux.Abort(stream)
		return
	}
	stream.Close()
}

// enter counts a relay, or tells why there may not be one more.
func (r *relays) enter() mux.RelayStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping || r.closed:
		return mux.RelayStopping
	case r.open >= mux.MaxRelays:
		return mux.RelayTooMany
	}
	r.open++
	r.wg.Add(1)
	return mux.RelayAccepted
}

func (r *relays) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	r.wg.Done()
	if r.open == 0 {
		select {
		case r.idle <- struct{}{}:
		default:
		}
	}
}

// count returns how many relays are open.
func (r *relays) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// find returns the port of a service, and waits a moment for one that is not
// known.
func (r *relays) find(ctx context.Context, name string) (uint16, mux.RelayStatus) {
	timer := time.NewTimer(desiredGrace)
	defer timer.Stop()
	for {
		r.mu.Lock()
		port, ok := r.ports[name]
		changed := r.changed
		r.mu.Unlock()
		switch {
		case ok && port == r.ops:
			return 0, mux.RelayForbidden
		case ok:
			return port, mux.RelayAccepted
		}
		select {
		case <-changed:
		case <-timer.C:
			return 0, mux.RelayUnknownService
		case <-ctx.Done():
			return 0, mux.RelayStopping
		}
	}
}

// stop refuses relays from now on. Open ones have the grace to end. It returns
// for how long settle will wait at most.
func (r *relays) stop(grace time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping, r.grace = true, grace
	if r.open == 0 {
		return 0
	}
	return grace
}

// settle waits until no relay is open, for the grace at most.
func (r *relays) settle(ctx context.Context) {
	r.mu.Lock()
	timer := time.NewTimer(r.grace)
	r.mu.Unlock()
	defer timer.Stop()
	for r.count() > 0 {
		select {
		case <-r.idle:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// wait returns when no relay is served any more, nor ever will be. Their
// sessions have ended before.
func (r *relays) wait() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
}
