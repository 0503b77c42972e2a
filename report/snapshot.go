// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Entry is one service of the desired state and what is known of it.
type Entry struct {
	Service probe.Service
	Verdict probe.Verdict
}

// Stop says that the agent is about to leave, and why.
type Stop struct {
	// MainExited is set when the main process has ended, with ExitCode.
	MainExited bool
	ExitCode   int
}

// Snapshot is everything that an agent knows at one instant. It is immutable
// once it was handed out.
type Snapshot struct {
	// Generation grows with every change.
	Generation uint64
	// Entries are sorted by service name.
	Entries []Entry
	// Stop is nil until the agent is about to leave.
	Stop *Stop
}

func byName(a, b Entry) int { return strings.Compare(a.Service.Name, b.Service.Name) }

// withServices returns the snapshot after a new desired state: verdicts of
// services whose revision is unchanged stay.
func (s Snapshot) withServices(services []probe.Service, now time.Time) Snapshot {
	known := make(map[uint64]probe.Verdict, len(s.Entries))
	for _, e := range s.Entries {
		known[e.Service.Revision] = e.Verdict
	}
	entries := make([]Entry, 0, len(services))
	for _, svc := range services {
		v, ok := known[svc.Revision]
		if !ok {
			v = probe.NewJudge(now).Verdict()
		}
		entries = append(entries, Entry{Service: svc, Verdict: v})
	}
	slices.SortFunc(entries, byName)
	return Snapshot{Generation: s.Generation + 1, Entries: entries, Stop: s.Stop}
}

// index returns where the snapshot holds a service in this configuration, or
// -1.
func (s Snapshot) index(svc probe.Service) int {
	i, ok := slices.BinarySearchFunc(s.Entries, Entry{Service: svc}, byName)
	if !ok || s.Entries[i].Service.Revision != svc.Revision {
		return -1
	}
	return i
}

// Tracker holds the newest Snapshot. It implements probe.Sink.
type Tracker struct {
	mu     sync.Mutex
	snap   Snapshot
	shared bool // somebody has snap.Entries: copy before writing
	ready  chan struct{}
}

var _ probe.Sink = (*Tracker)(nil)

// NewTracker returns a Tracker that knows no service.
func NewTracker() *Tracker { return &Tracker{ready: make(chan struct{}, 1)} }

// Snapshot returns the newest snapshot.
func (t *Tracker) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shared = true
	return t.snap
}

// Ready is signalled when the newest snapshot should be sent: a state or the
// list has changed, a round has ended, or the agent stops.
func (t *Tracker) Ready() <-chan struct{} { return t.ready }

func (t *Tracker) signal() {
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// Services implements probe.Sink.
func (t *Tracker) Services(services []probe.Service, now time.Time) {
	t.mu.Lock()
	t.snap, t.shared = t.snap.withServices(services, now), false
	t.mu.Unlock()
	t.signal()
}

// Observed implements probe.Sink. What is said of a service or a configuration
// that is not desired any more is dropped.
func (t *Tracker) Observed(svc probe.Service, v probe.Verdict, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.snap.index(svc)
	if i < 0 {
		return
	}
	if t.shared {
		t.snap.Entries, t.shared = slices.Clone(t.snap.Entries), false
	}
	first := t.snap.Entries[i].Verdict.Observed.IsZero()
	t.snap.Entries[i].Verdict = v
	t.snap.Generation++
	if changed || first { // from nothing to something is a change too
		t.signal()
	}
}

// RoundEnded implements probe.Sink.
func (t *Tracker) RoundEnded() { t.signal() }

// Stop makes every later snapshot say that the agent leaves.
func (t *Tracker) Stop(stop Stop) {
	t.mu.Lock()
	t.snap.Generation++
	t.snap.Stop = &stop
	t.mu.Unlock()
	t.signal()
}
