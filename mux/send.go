// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"net"
	"sync"
	"time"
)

const maxQueued = 64 << 10 // bytes of frames without data that wait

// sender writes frames to a connection, a frame with data in one write. Frames
// without data (streams opened, accepted, ended, reset, windows) go before
// others: who writes takes them along. It is safe for concurrent use.
type sender struct {
	conn net.Conn
	turn chan struct{} // holds a token while somebody writes
	slow *time.Timer   // of who has the turn
	kick chan struct{} // the receiver has queued a frame
	fail func(error)   // told of what the connection says

	mu     sync.Mutex
	queued []byte // frames without data, to be sent as soon as it is possible
}

// newSender returns a sender that calls stalled if the connection takes nothing
// for writeTimeout, and fail with each of its errors.
func newSender(conn net.Conn, stalled func(), fail func(error)) *sender {
	w := &sender{
		conn: conn, fail: fail,
		turn: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		slow: time.AfterFunc(writeTimeout, stalled),
	}
	w.slow.Stop()
	return w
}

// data sends a data frame and returns when the connection has taken it.
func (w *sender) data(stream uint32, p []byte) error {
	buf := newBlock(frameHeader + len(p))
	defer freeBlock(buf)
	copy((*buf)[frameHeader:], p)
	return w.inPlace(stream, *buf)
}

// inPlace is data of what stands in buf behind frameHeader bytes of room.
func (w *sender) inPlace(stream uint32, buf []byte) error {
	frame{kind: frameData, stream: stream, length: uint32(len(buf) - frameHeader)}.append(buf[:0])
	w.turn <- struct{}{}
	err := w.write(buf)
	<-w.turn
	if err != nil {
		w.fail(err)
		return err
	}
	w.flush()
	return nil
}

// queue takes a frame without data, to be sent with the next flush or data.
// crowded says that many wait: the peer makes us answer and does not read.
func (w *sender) queue(stream uint32, flags uint16, growth int) (crowded bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued = frame{kind: frameWindow, flags: flags, stream: stream, length: uint32(growth)}.append(w.queued)
	return len(w.queued) > maxQueued
}

// tell sends a frame without data, or leaves that to a writer who is busy.
func (w *sender) tell(stream uint32, flags uint16, growth int) {
	w.queue(stream, flags, growth)
	w.flush()
}

// answer is tell for the receiver, which must not wait for the connection:
// another goroutine sends. It waits when many frames wait.
func (w *sender) answer(stream uint32, flags uint16, growth int) {
	if !w.queue(stream, flags, growth) {
		notify(w.kick)
		return
	}
	w.turn <- struct{}{}
	err := w.write(nil)
	<-w.turn
	if err != nil {
		w.fail(err)
	}
}

// flush sends the frames without data, unless a writer is busy, who then does it.
func (w *sender) flush() {
	for w.pending() {
		select {
		case w.turn <- struct{}{}:
		default:
			return
		}
		err := w.write(nil)
		<-w.turn
		if err != nil {
			w.fail(err)
			return
		}
	}
}

// run sends what the receiver answers, until done.
func (w *sender) run(done <-chan struct{}) {
	for {
		select {
		case <-w.kick:
			w.flush()
		case <-done:
			return
		}
	}
}

func (w *sender) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queued) > 0
}

// write sends the frames without data that wait, then p. It is called with the
// turn.
func (w *sender) write(p []byte) error {
	w.slow.Reset(writeTimeout)
	defer w.slow.Stop()
	w.mu.Lock()
	queued := w.queued
	w.queued = nil
	w.mu.Unlock()
	if queued != nil {
		if _, err := w.conn.Write(queued); err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	return writeFrame(w.conn, p)
}
