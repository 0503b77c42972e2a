// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"time"
	"unsafe"
)

// clock is the clock of one machine: a wall clock, which can be stepped, and
// a monotonic clock, which stands still while the machine is suspended. Its
// instants carry both, as time.Now's do.
type clock struct {
	base time.Time
	step time.Duration // of the wall clock, whole seconds
}

// at returns the instant that the clock shows after the given running time.
func (c clock) at(running time.Duration) time.Time {
	return stepped(c.base.Add(running), c.step)
}

// stepped returns t with the wall clock's reading moved by whole seconds and
// the monotonic clock's reading as it is. Nothing in package time does that, for
// it happens to the machine and not to an instant; so this writes into
// time.Time. A test holds that it does what it says.
func stepped(t time.Time, step time.Duration) time.Time {
	const secondsShift = 30
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(step/time.Second) << secondsShift
	return t
}
