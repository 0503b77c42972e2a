// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"sync"
	"time"
)

const (
	// lateBound is how long this process may stand still during an attempt
	// before what it missed is no longer the service's fault.
	lateBound = 250 * time.Millisecond
	// suspendedBound is how long it has to stand still to be called suspended
	// rather than late: no scheduler starves a process for a whole interval.
	suspendedBound = Interval
	// stallPeriod is how often the meter wants to run.
	stallPeriod = 25 * time.Millisecond
)

// excuse turns a fail that this process may have caused by not running into
// an inconclusive one. stall is how long it stood still between a.Start and
// a.End. What a service said, it said, however late it was heard; what it did
// not say, or gave up saying, proves nothing then.
func excuse(a Attempt, stall time.Duration) Attempt {
	if a.Reason != Timeout && a.Reason != Closed && a.Reason != Reset {
		return a
	}
	if overdue := a.End.Sub(a.Start) - AttemptTimeout; overdue > stall {
		stall = overdue
	}
	switch {
	case stall >= suspendedBound:
		a.Outcome, a.Reason = Inconclusive, Suspended
	case stall > lateBound:
		a.Outcome, a.Reason = Inconclusive, Late
	}
	return a
}

// stallMeter sums up how long this process stood still. It runs only while
// somebody has joined: a timer wants to fire every stallPeriod, and what it is
// late by is time that the process did not get. The zero stallMeter is ready
// for use. Attempts that end within one period cost it no wake-up.
type stallMeter struct {
	mu     sync.Mutex
	joined int
	last   time.Time     // the latest tick, or the first join
	total  time.Duration // standing still up to last
	timer  *time.Timer
}

// join begins a measurement at now. leave needs the mark that it returns.
func (m *stallMeter) join(now time.Time) (mark time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joined++; m.joined == 1 {
		m.last = now
		if m.timer == nil {
			m.timer = time.AfterFunc(stallPeriod, m.tick)
		} else {
			m.timer.Reset(stallPeriod)
		}
	}
	return m.total + m.overdue(now)
}

// leave ends the measurement that join gave mark to, and returns how long this
// process stood still in between.
func (m *stallMeter) leave(now time.Time, mark time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	stall := m.total + m.overdue(now) - mark
	if m.joined--; m.joined == 0 {
		m.timer.Stop()
	}
	return max(stall, 0)
}

func (m *stallMeter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joined == 0 {
		return
	}
	now := time.Now()
	m.total += m.overdue(now)
	m.last = now
	m.timer.Reset(stallPeriod)
}

// overdue returns by how much the next tick is late at now.
func (m *stallMeter) overdue(now time.Time) time.Duration {
	return max(now.Sub(m.last)-stallPeriod, 0)
}
