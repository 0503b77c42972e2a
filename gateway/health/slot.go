// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Observation is what an agent said of one service after an attempt, with
// instants of the gateway's clock that nothing in it is older than.
type Observation struct {
	ServiceID  string
	Instance   string
	Revision   uint64
	State      probe.State
	Outcome    probe.Outcome
	Reason     probe.Reason
	Code       uint16
	Address    netip.Addr
	Latency    time.Duration
	Failures   int
	Latest     time.Time // the latest attempt
	Conclusive time.Time // the latest conclusive attempt; zero if none
	Since      time.Time // the last change of State
}

// freshness is the instant from which the observation ages: inconclusive
// attempts do not refresh a verdict, but they are an observation where there
// never was one.
func (o *Observation) freshness() time.Time {
	if o.Conclusive.IsZero() {
		return o.Latest
	}
	return o.Conclusive
}

// Slot is what the gateway knows of one sandbox from its agent. The zero Slot
// knows nothing. A Slot is never changed once it is made.
type Slot struct {
	// Life is the generation of the sandbox that the owner is of.
	Life     uint64
	Session  uint64 // owner of the slot; 0 if there never was one
	Live     bool   // the owner's session is open
	Instance string // instance of the owner's agent
	// Generation is that of the newest report of Instance.
	Generation uint64
	Lost       time.Time     // when a session last ended that owned the slot
	observed   []Observation // sorted by ServiceID
}

func byService(o Observation, id string) int { return strings.Compare(o.ServiceID, id) }

func (s Slot) observation(serviceID string) *Observation {
	i, ok := slices.BinarySearchFunc(s.observed, serviceID, byService)
	if !ok {
		return nil
	}
	return &s.observed[i]
}

// Of returns what is known of one generation of the sandbox: all or nothing.
func (s Slot) Of(generation uint64) Slot {
	if s.Life != generation {
		return Slot{}
	}
	return s
}

// connected returns the slot once a session of the given agent owns it. What
// earlier instances observed stays until it is replaced, so that it can be
// told from nothing; what earlier generations did is gone, and theirs is not the
// slot of a later one.
func (s Slot) connected(session, generation uint64, instance string) Slot {
	if generation < s.Life {
		return s
	}
	s = s.Of(generation)
	s.Life = generation
	if instance != s.Instance {
		s.Generation = 0
	}
	s.Session, s.Instance, s.Live = session, instance, true
	return s
}

// disconnected returns the slot after the end of a session. Only the owner's
// end counts.
func (s Slot) disconnected(session uint64, now time.Time) Slot {
	if session != s.Session || !s.Live {
		return s
	}
	s.Live, s.Lost = false, now
	return s
}

// after returns the observation that follows an older one of the same service.
// Of one instance and configuration the later report knows of no earlier
// attempt, so that its instants never go back, whatever it can prove by itself.
func (o Observation) after(old Observation) Observation {
	if o.Instance != old.Instance || o.Revision != old.Revision {
		return o
	}
	o.Latest = later(o.Latest, old.Latest)
	o.Conclusive = later(o.Conclusive, old.Conclusive)
	// Since is derived from Latest, whose proof may differ from report to report.
	// Two changes to one state are two intervals apart.
	if o.State == old.State && o.Since.Sub(old.Since) < 2*probe.Interval && old.Since.Before(o.Since) {
		o.Since = old.Since
	}
	return o
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// reported returns the slot after a report of the owner. The report's
// observations replace stored ones of the same service; stored ones that it
// does not name stay, to age out, as long as their service is desired.
func (s Slot) reported(generation uint64, reported []Observation, desired map[string]bool) Slot {
	merged := slices.Clone(reported)
	slices.SortFunc(merged, newestFirst)
	merged = slices.CompactFunc(merged, func(a, b Observation) bool { return a.ServiceID == b.ServiceID })
	n := len(merged)
	for _, old := range s.observed {
		i, again := slices.BinarySearchFunc(merged[:n], old.ServiceID, byService)
		switch {
		case again:
			merged[i] = merged[i].after(old)
		case desired[old.ServiceID]:
			merged = append(merged, old)
		}
	}
	slices.SortFunc(merged, newestFirst)
	s.observed, s.Generation = merged, generation
	return s
}

// newestFirst orders by service and, within one, the newest configuration
// first.
func newestFirst(a, b Observation) int {
	return cmp.Or(strings.Compare(a.ServiceID, b.ServiceID), cmp.Compare(b.Revision, a.Revision))
}
