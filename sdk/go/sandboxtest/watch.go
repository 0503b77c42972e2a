// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// heartbeat is how often a watch says that the gateway lives.
const heartbeat = 4 * time.Second

// MuteWatches makes open and new watches say nothing any more, not even that
// the gateway lives, until the returned function is called.
func (g *Gateway) MuteWatches() (unmute func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.muted++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.muted--
		g.notify()
	}
}

// BreakWatches ends open watches and waits with err, a gRPC status, as a
// gateway that stops does with codes.Unavailable.
func (g *Gateway) BreakWatches(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open {
		c.end(err)
	}
}

// Watches returns how many watches and waits are open.
func (g *Gateway) Watches() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// notify wakes whoever waits for a change; the caller holds the lock.
func (g *Gateway) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// enter registers a call that BreakWatches ends.
func (g *Gateway) enter(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &call{cancel}
	g.open[c] = struct{}{}
	return ctx, func() {
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, c)
	}
}

type call struct{ end context.CancelCauseFunc }

// ended is why a call has ended.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return status.FromContextError(ctx.Err()).Err()
}

// seen is a service and the phase of its sandbox.
type seen struct {
	number  uint32
	service *openshellv1.ServiceEndpointResponse
	phase   openshellv1.SandboxPhase
}

func (s seen) same(o seen) bool {
	a, b := s.service, o.service
	return s.phase == o.phase && proto.Equal(a.GetEndpoint(), b.GetEndpoint()) &&
		a.GetHealth().GetState() == b.GetHealth().GetState() && a.GetHealth().GetReason() == b.GetHealth().GetReason()
}

// WatchServices implements the API: the state, then its changes, and a
// heartbeat every four seconds. Ages are those of LastCheckedTime.
func (g *Gateway) WatchServices(r *sandboxv1.WatchServicesRequest, out grpc.ServerStreamingServer[sandboxv1.WatchServicesResponse]) error {
	ctx, leave := g.enter(out.Context())
	defer leave()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	sent := make(map[key]seen)
	sequence, numbers, due := uint64(0), uint32(0), true
	for {
		g.mu.Lock()
		changed, muted := g.changed, g.muted > 0
		m := &sandboxv1.WatchServicesResponse{Complete: true}
		if !muted {
			numbers = g.compare(r, sent, m, numbers)
		}
		g.mu.Unlock()
		if !muted && (due || len(m.GetServices())+len(m.GetRemoved()) > 0) {
			sequence++
			m.Sequence = sequence
			if err := out.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-changed:
			due = false
		case <-beat.C:
			due = true
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// compare puts into m what is other than what was sent; the caller holds the
// lock.
func (g *Gateway) compare(r *sandboxv1.WatchServicesRequest, sent map[key]seen, m *sandboxv1.WatchServicesResponse, numbers uint32) uint32 {
	for _, k := range slices.SortedFunc(maps.Keys(sent), compareKeys) {
		if e := g.services[k]; e == nil || !g.watched(r, k) || e.GetMetadata().GetId() != sent[k].service.GetEndpoint().GetMetadata().GetId() {
			m.Removed = append(m.Removed, sent[k].number)
			delete(sent, k)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(g.services), compareKeys) {
		if !g.watched(r, k) {
			continue
		}
		now := seen{sent[k].number, g.answer(k), g.sandboxes[key{k.workspace, k.sandbox, ""}].GetStatus().GetPhase()}
		age := g.age(now.service.GetHealth())
		if now.number != 0 && now.same(sent[k]) {
			if age != nil {
				m.Ages = append(m.Ages, &sandboxv1.ServiceAge{Number: now.number, AgeMs: *age})
			}
			continue
		}
		if now.number == 0 {
			numbers++
			now.number = numbers
		}
		sent[k] = now
		m.Services = append(m.Services, &sandboxv1.WatchedService{Number: now.number, Service: now.service, SandboxPhase: now.phase, AgeMs: age})
	}
	return numbers
}

func (g *Gateway) age(h *openshellv1.ServiceHealth) *uint32 {
	if h.GetLastCheckedTime() == nil {
		return nil
	}
	return proto.Uint32(uint32(max(g.o.Now().Sub(h.GetLastCheckedTime().AsTime()), 0) / time.Millisecond))
}

func (g *Gateway) watched(r *sandboxv1.WatchServicesRequest, k key) bool {
	return inScope(r.GetWorkspaceScope(), k) && (r.GetSandbox() == "" || r.GetSandbox() == k.sandbox) &&
		(len(r.GetServices()) == 0 || slices.Contains(r.GetServices(), k.service)) &&
		selected(r.GetLabelSelector(), g.sandboxes[key{k.workspace, k.sandbox, ""}].GetMetadata().GetLabels())
}

// WaitService implements the API.
func (g *Gateway) WaitService(ctx context.Context, r *sandboxv1.WaitServiceRequest) (*sandboxv1.WaitServiceResponse, error) {
	began := time.Now()
	ctx, leave := g.enter(ctx)
	defer leave()
	workspace, err := one(r.GetWorkspaceScope())
	if err != nil {
		return nil, err
	}
	w := waiting{Gateway: g, request: r, key: key{workspace, r.GetSandbox(), r.GetName()}, began: began}
	var limit <-chan time.Time
	if r.GetTimeout() != nil {
		t := time.NewTimer(r.GetTimeout().AsDuration())
		defer t.Stop()
		limit = t.C
	}
	for {
		resp, changed, err := w.look()
		if resp != nil || err != nil {
			return resp, err
		}
		select {
		case <-changed:
		case <-limit:
			return nil, w.fail(codes.DeadlineExceeded, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT)
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
}
