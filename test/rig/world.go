// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"slices"
	"time"
)

// World is one sandbox, its agents, and a gateway.
type World struct {
	// Store is what the gateway has on disk.
	Store *Store
	// Gateway is the gateway's process.
	Gateway *Gateway
	// Targets are the ports of the sandbox, for agents that keep the schedule.
	Targets map[uint16]Target
	// Aim, if set, replaces Targets: it is asked at each attempt, which is off
	// the timer or not.
	Aim func(port uint16, extra bool) Target
	// Log is everything that has happened, in order.
	Log []Event
	// Stuck is set, and nothing happens any more, if so much happened at one
	// instant that it would never end.
	Stuck bool
	// Scheduled agents attempt by the real schedule. Others attempt what
	// Attempt tells them.
	Scheduled bool

	now       time.Duration
	due       []item
	asked     uint64 // items so far
	busy      int    // items so far at this instant
	sessions  uint64 // sessions so far
	instances int    // agents so far
	base      time.Time
}

// New returns a world whose gateway has just started and whose sandbox was
// just created.
func New() *World {
	w := &World{Targets: map[uint16]Target{}, base: time.Now()}
	w.Store = newStore()
	w.Gateway = &Gateway{world: w, clock: clock{base: w.base}}
	w.Gateway.start()
	return w
}

// Now is the true time since the beginning.
func (w *World) Now() time.Duration { return w.now }

// tooBusy is how much cannot happen at one instant unless each thing causes
// the next.
const tooBusy = 10_000

// item is something that will happen.
type item struct {
	at    time.Duration
	order uint64
	do    func()
}

// after asks for something to happen.
func (w *World) after(d time.Duration, do func()) {
	w.asked++
	it := item{w.now + max(d, 0), w.asked, do}
	i, _ := slices.BinarySearchFunc(w.due, it, func(a, b item) int {
		// The next one is the last of the list.
		if a.at != b.at {
			return int(b.at - a.at)
		}
		return int(b.order) - int(a.order)
	})
	w.due = slices.Insert(w.due, i, it)
}

// Pass lets time pass, and whatever is due happen.
func (w *World) Pass(d time.Duration) {
	until := w.now + d
	for len(w.due) > 0 {
		next := w.due[len(w.due)-1]
		if next.at > until {
			break
		}
		w.due = w.due[:len(w.due)-1]
		if next.at > w.now {
			w.busy = 0
		}
		if w.busy++; w.busy > tooBusy {
			w.Stuck, w.due = true, nil
			break
		}
		w.now = next.at
		next.do()
	}
	w.now = until
}

// Next returns when something is due next; ok is false if nothing is.
func (w *World) Next() (at time.Duration, ok bool) {
	if len(w.due) == 0 {
		return 0, false
	}
	return w.due[len(w.due)-1].at, true
}

func (w *World) log(e Event) {
	e.At = w.now
	w.Log = append(w.Log, e)
}
