// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"container/heap"
	"time"
)

// deadlines holds one instant for each of some ids and finds the earliest. The
// zero deadlines is empty.
type deadlines struct {
	heap dueHeap
}

type due struct {
	id string
	at time.Time
}

// set gives an id its instant; the zero instant takes the id out.
func (d *deadlines) set(id string, at time.Time) {
	i, known := d.heap.index[id]
	switch {
	case at.IsZero() && known:
		heap.Remove(&d.heap, i)
	case at.IsZero():
	case known:
		d.heap.list[i].at = at
		heap.Fix(&d.heap, i)
	default:
		heap.Push(&d.heap, due{id, at})
	}
}

// at returns the instant of an id; zero if it has none.
func (d *deadlines) at(id string) time.Time {
	i, known := d.heap.index[id]
	if !known {
		return time.Time{}
	}
	return d.heap.list[i].at
}

// first returns the earliest instant; zero if there is none.
func (d *deadlines) first() time.Time {
	if len(d.heap.list) == 0 {
		return time.Time{}
	}
	return d.heap.list[0].at
}

// due returns the ids whose instant has come.
func (d *deadlines) due(now time.Time) []string { return d.heap.due(nil, 0, now) }

// due walks down from i; what is below an instant is not earlier.
func (h *dueHeap) due(ids []string, i int, now time.Time) []string {
	if i >= len(h.list) || h.list[i].at.After(now) {
		return ids
	}
	ids = append(ids, h.list[i].id)
	return h.due(h.due(ids, 2*i+1, now), 2*i+2, now)
}

// dueHeap implements heap.Interface.
type dueHeap struct {
	list  []due
	index map[string]int
}

func (h *dueHeap) Len() int           { return len(h.list) }
func (h *dueHeap) Less(i, j int) bool { return h.list[i].at.Before(h.list[j].at) }

func (h *dueHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.index[h.list[i].id], h.index[h.list[j].id] = i, j
}

func (h *dueHeap) Push(x any) {
	if h.index == nil {
		h.index = make(map[string]int)
	}
	d := x.(due)
	h.index[d.id] = len(h.list)
	h.list = append(h.list, d)
}

func (h *dueHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list[len(h.list)-1] = due{}
	h.list = h.list[:len(h.list)-1]
	delete(h.index, last.id)
	return last
}
