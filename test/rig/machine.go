// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import "time"

// Machine is what an agent runs on: it can stand still.
type Machine struct {
	world     *World
	clock     clock
	stopped   bool
	suspended bool          // stopped, and the monotonic clock with it
	since     time.Duration // true time of the stop
	lost      time.Duration // that the monotonic clock has missed
	missed    []missed
	agents    []*Agent
	backlog   []func() // what happens once it runs again
}

// missed is what the monotonic clock has missed when it showed at.
type missed struct{ at, lost time.Duration }

// trueTime returns when the monotonic clock showed a time.
func (m *Machine) trueTime(running time.Duration) time.Duration {
	t := running
	for _, s := range m.missed {
		if s.at <= running {
			t += s.lost
		}
	}
	return t
}

// NewMachine returns a machine that has run for ages.
func (w *World) NewMachine() *Machine {
	return &Machine{world: w, clock: clock{base: w.base.Add(-1000 * time.Hour)}}
}

// running is how long the monotonic clock has run since the beginning.
func (m *Machine) running() time.Duration {
	if m.suspended {
		return m.since - m.lost
	}
	return m.world.now - m.lost
}

func (m *Machine) now() time.Time { return m.clock.at(m.running()) }

// StepClock steps the machine's wall clock by whole seconds.
func (m *Machine) StepClock(by time.Duration) { m.clock.step += by }

// Freeze stops every process, as a cgroup's freezer does. Clocks run on.
func (m *Machine) Freeze() {
	if !m.stopped {
		m.stopped, m.since = true, m.world.now
	}
}

// Suspend stops the whole machine, as a hypervisor does: the monotonic clock
// stands still.
func (m *Machine) Suspend() {
	if !m.stopped {
		m.Freeze()
		m.suspended = true
	}
}

// Thaw ends Freeze and Suspend.
func (m *Machine) Thaw() {
	if !m.stopped {
		return
	}
	gone := m.world.now - m.since
	slept := m.suspended
	if slept {
		// It takes a moment to stop.
		lost := max(gone-time.Millisecond, 0)
		m.lost += lost
		m.missed = append(m.missed, missed{m.world.now - m.lost, lost})
	}
	m.stopped, m.suspended = false, false
	for _, a := range m.agents {
		a.wake(gone, slept)
	}
	backlog := m.backlog
	m.backlog = nil
	for _, f := range backlog {
		m.do(f)
	}
}

// Stopped reports whether the machine stands still.
func (m *Machine) Stopped() bool { return m.stopped }

// do runs f now, or once the machine runs.
func (m *Machine) do(f func()) {
	if m.stopped {
		m.backlog = append(m.backlog, f)
		return
	}
	f()
}

// after runs f when d has passed on the monotonic clock.
func (m *Machine) after(d time.Duration, f func()) {
	deadline := m.running() + d
	var fire func()
	fire = func() {
		if early := deadline - m.running(); early > 0 {
			m.world.after(early, func() { m.do(fire) })
			return
		}
		f()
	}
	m.world.after(d, func() { m.do(fire) })
}
