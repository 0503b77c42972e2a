// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"sync/atomic"
	"time"
)

// A window bounds what a stream keeps of what its peer has sent, and with it how
// much is under way: too little, and both ends wait for each other's wake-ups
// while the connection idles. So a stream whose reader is fast gets a greater
// one, of which a session has so much to give.
const (
	maxWindow  = 1 << 20              // of a stream whose reader is fast
	maxExtra   = 8 << 20              // what the windows of a session may be greater by, together
	fastReader = 5 * time.Millisecond // in which it reads half of its window
	slowReader = time.Second          // in which it does not
)

// receiveWindow is the room that a stream has for its peer's bytes.
type receiveWindow struct {
	size int       // what there may be of unread bytes and of room
	room int       // bytes that the peer may still send
	owed int       // bytes that were read since the peer was given room
	gave time.Time // when that was
}

func newReceiveWindow() receiveWindow { return receiveWindow{size: window, room: window} }

// admit takes n bytes into the room, and reports false if there is not so much.
func (w *receiveWindow) admit(n int) bool {
	if n > w.room {
		return false
	}
	w.room -= n
	return true
}

// read takes note that n bytes of the window were read, and reports whether it is
// time to give room for them: not for less than half of the window, since that is
// a message.
func (w *receiveWindow) read(n int) (due bool) {
	w.owed += n
	return w.owed >= w.size/2
}

// give returns how much room to give to the peer. Where extra is not nil, the
// window is adjusted to its reader.
func (w *receiveWindow) give(now time.Time, extra *atomic.Int64) (give int) {
	if extra != nil && !w.gave.IsZero() {
		w.adjust(now.Sub(w.gave), extra)
	}
	give = w.owed
	w.gave, w.owed, w.room = now, 0, w.room+give
	return give
}

// adjust makes the window of a fast reader greater, and takes from a slow one
// what it was given.
func (w *receiveWindow) adjust(took time.Duration, extra *atomic.Int64) {
	switch {
	case took < fastReader && w.size < maxWindow:
		more := min(w.size, maxWindow-w.size)
		if extra.Add(int64(more)) > maxExtra {
			extra.Add(-int64(more))
			return
		}
		w.size += more
		w.owed += more
	case took > slowReader && w.size > window:
		less := min(w.owed, w.size-window)
		extra.Add(-int64(less))
		w.size -= less
		w.owed -= less
	}
}

// end gives back what the window was greater by.
func (w *receiveWindow) end(extra *atomic.Int64) {
	extra.Add(int64(window - w.size))
	w.size = window
}
