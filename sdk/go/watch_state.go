// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// WatchTimeout is how long what a watch has told counts without a word from
// the gateway. After that every service is unknown.
const WatchTimeout = 15 * time.Second

// ReasonWatchStale is the reason of a health that is unknown because a watch
// has heard nothing for WatchTimeout. It is this package's; no gateway says it.
const ReasonWatchStale = "WatchStale"

// WatchedService is a service as a watch knows it. It is not changed once it
// is handed out, and belongs to whoever got it; its messages are shared and
// only to be read.
type WatchedService struct {
	// Service is the endpoint, its URL and its health.
	Service *openshellv1.ServiceEndpointResponse
	// Phase of the sandbox.
	Phase openshellv1.SandboxPhase
	// Checked is when the latest attempt at the service was, on this machine's
	// clock; zero if there was none. time.Since(Checked) is its age.
	Checked time.Time
}

// Health is HealthOf the service.
func (s WatchedService) Health() Health { return HealthOf(s.Service) }

// key orders services and tells them apart: one that was deleted and made
// anew is another.
type watchKey struct{ workspace, sandbox, name, id string }

func (s WatchedService) key() watchKey {
	e := s.Service.GetEndpoint()
	return watchKey{e.GetMetadata().GetWorkspace(), e.GetSandbox(), e.GetName(), e.GetMetadata().GetId()}
}

func compareWatched(a, b WatchedService) int {
	x, y := a.key(), b.key()
	return cmp.Or(cmp.Compare(x.workspace, y.workspace), cmp.Compare(x.sandbox, y.sandbox), cmp.Compare(x.name, y.name), cmp.Compare(x.id, y.id))
}

// same reports whether a change from one to the other is no news.
func (s WatchedService) same(other WatchedService) bool {
	a, b := s.Service, other.Service
	return s.Phase == other.Phase && a.GetUrl() == b.GetUrl() &&
		a.GetHealth().GetState() == b.GetHealth().GetState() && a.GetHealth().GetReason() == b.GetHealth().GetReason() &&
		proto.Equal(a.GetEndpoint(), b.GetEndpoint())
}

// stale is the service once nobody knows how it is.
func (s WatchedService) stale() WatchedService {
	s.Service = &openshellv1.ServiceEndpointResponse{
		Endpoint: s.Service.GetEndpoint(), Url: s.Service.GetUrl(),
		Health: &openshellv1.ServiceHealth{
			State:           openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN,
			Reason:          ReasonWatchStale,
			Message:         "the gateway has not been heard for 15 seconds",
			LastCheckedTime: s.Service.GetHealth().GetLastCheckedTime(),
		},
	}
	return s
}

// watchState is what the messages of a watch amount to, over all its streams.
// It is pure, and for one goroutine at a time.
type watchState struct {
	services  map[uint32]WatchedService // of the latest full state, by number
	incoming  map[uint32]WatchedService // of a full state that is not complete
	sequence  uint64                    // of the latest message of the stream
	complete  bool                      // a full state was complete once
	connected bool
	err       error     // why it is not connected
	heard     time.Time // the latest message about services
}

// begin takes note of a new stream.
func (w *watchState) begin() { w.sequence, w.incoming = 0, make(map[uint32]WatchedService) }

var errSequence = errors.New("the gateway's messages are not in sequence")

// take takes in a message that was received at now. After an error the stream
// cannot be trusted any more.
func (w *watchState) take(m *sandboxv1.WatchServicesResponse, now time.Time) error {
	if m.GetSequence() != w.sequence+1 {
		return fmt.Errorf("%w: %d came after %d", errSequence, m.GetSequence(), w.sequence)
	}
	w.sequence = m.GetSequence()
	into := w.incoming
	if into == nil {
		into, w.heard = w.services, now
	}
	for _, n := range m.GetRemoved() {
		delete(into, n)
	}
	for _, s := range m.GetServices() {
		if s.GetNumber() == 0 || s.GetService() == nil {
			continue
		}
		next := WatchedService{Service: s.GetService(), Phase: s.GetSandboxPhase()}
		if s.AgeMs != nil {
			next.Checked = now.Add(-time.Duration(s.GetAgeMs()) * time.Millisecond)
		}
		into[s.GetNumber()] = next
	}
	for _, a := range m.GetAges() {
		if s, ok := into[a.GetNumber()]; ok {
			s.Checked = now.Add(-time.Duration(a.GetAgeMs()) * time.Millisecond)
			into[a.GetNumber()] = s
		}
	}
	if m.GetComplete() && w.incoming != nil {
		w.services, w.incoming, w.heard = w.incoming, nil, now
		w.complete, w.connected, w.err = true, true, nil
	}
	return nil
}

// lost takes note that the stream has ended.
func (w *watchState) lost(err error) { w.connected, w.err = false, err }

// expires is the instant from which on everything is unknown.
func (w *watchState) expires() time.Time { return w.heard.Add(WatchTimeout) }

// at returns all services as they are known at now, in order.
func (w *watchState) at(now time.Time) []WatchedService {
	list := slices.Collect(maps.Values(w.services))
	if !now.Before(w.expires()) {
		for i, s := range list {
			list[i] = s.stale()
		}
	}
	slices.SortFunc(list, compareWatched)
	return list
}

// difference returns what of two lists in order is new or other in the second,
// and what is gone from the first.
func difference(before, after []WatchedService) (changed, removed []WatchedService) {
	i := 0
	for _, s := range after {
		for i < len(before) && compareWatched(before[i], s) < 0 {
			removed = append(removed, before[i])
			i++
		}
		if i < len(before) && compareWatched(before[i], s) == 0 {
			if !before[i].same(s) {
				changed = append(changed, s)
			}
			i++
			continue
		}
		changed = append(changed, s)
	}
	return changed, append(removed, before[i:]...)
}
