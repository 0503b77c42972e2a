// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

const (
	// lateBound is how late a turn of the probe loop has to be for a process
	// that was frozen. One that is starved of CPU is not kept waiting for a
	// whole interval.
	lateBound = probe.Interval
	// asleepBound is how far the boot-time clock has to run ahead of the
	// monotonic one for a machine that was suspended.
	asleepBound = time.Second
	// stepBound is how far the wall clock has to run ahead of the monotonic one
	// for a machine that was restored from a snapshot: its other clocks go on
	// from where they were, until somebody sets the time.
	stepBound = 5 * time.Second
	// suspectAfter is how long a suspension makes the session suspect: no
	// report of it can have been acknowledged for so long.
	suspectAfter = report.AckTimeout
)

// reading is what the clocks say at one instant.
type reading struct {
	mono time.Time     // stands still while the machine sleeps
	wall time.Time     // without the monotonic clock
	boot time.Duration // of the boot-time clock, which runs on
}

// vigil finds out whether this process was suspended. It is pure; its owner
// serialises the calls.
type vigil struct{ last reading }

// see takes a reading at a turn of the probe loop, and how late that is. It
// returns for how long this process did not run since the last reading, or 0
// if that was nothing out of the ordinary.
func (v *vigil) see(r reading, late time.Duration) (gone time.Duration) {
	last := v.last
	v.last = r
	if last.mono.IsZero() {
		return 0
	}
	ran := r.mono.Sub(last.mono)
	if asleep := r.boot - last.boot - ran; asleep >= asleepBound {
		gone = asleep
	}
	// After a sleep that the kernel knows of, the wall clock has gone on too.
	if step := r.wall.Sub(last.wall) - ran; step >= stepBound {
		gone = max(gone, step)
	}
	if late >= lateBound {
		gone += late
	}
	return gone
}

// suspect reports whether a session can be trusted after a suspension.
func suspect(gone time.Duration) bool { return gone >= suspectAfter }
