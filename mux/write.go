// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"net"
	"os"
	"time"

	"github.com/hashicorp/yamux"
)

// Write sends p in frames of at most 8 KiB, or greater ones of a great transfer
// on a fast connection, and returns when the connection has
// taken the last one. It waits while 256 KiB are unread by the peer. After an
// error the number of bytes that arrive is not known.
func (s *Stream) Write(p []byte) (int, error) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	total := 0
	for {
		if err := s.writable(); err != nil || total == len(p) {
			return total, err
		}
		chunk := p[total:min(len(p), total+s.pace.chunk(s.session.conn.bulk))]
		n, err := s.writeChunk(chunk)
		s.pace.sent(n)
		total += n
		if err != nil {
			return total, s.fault(err)
		}
	}
}

func (s *Stream) writable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isClosed():
		return net.ErrClosed
	case s.session.ended(): // yamux may not have noticed yet
		return s.session.over()
	case !s.writeDeadline.IsZero() && time.Until(s.writeDeadline) <= 0:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// The size of a frame decides what both ends of a session go on holding after
// a transfer, in buffers of yamux and of TLS: measured, 54 KB each with frames
// of 16 KiB, 23 KB with 8 KiB, 10 KB with 4 KiB. It decides how long a report
// waits on a slow link. And it decides what a GB costs. So only who has much to
// send, on a connection that takes it fast, gets greater ones; and an agent,
// which holds one session, 64 KiB, but a gateway, which holds thousands, 32 KiB.

const (
	paceBytes = 1 << 20                // over which the pace is taken
	fastPace  = 100 * time.Millisecond // for them
)

// pace is how fast a stream's bytes are taken.
type pace struct {
	bytes int
	since time.Time
	fast  bool
}

func bulk(agent bool) int {
	if agent {
		return agentBulk
	}
	return gatewayBulk
}

func (p *pace) chunk(bulk int) int {
	if p.fast {
		return bulk
	}
	return maxChunk
}

func (p *pace) sent(n int) {
	if p.bytes += n; p.bytes < paceBytes {
		return
	}
	now := time.Now()
	p.fast = now.Sub(p.since) < fastPace
	p.bytes, p.since = 0, now
}

// budgeted streams share the session's budget of queued frames.
func (s *Stream) budgeted() bool { return s.kind != KindControl }

// writeChunk sends some or all of a chunk. A relay stream must not hold a place
// in the queue while it waits for its reader. So its writes never wait for the
// window (yamux has a deadline of the past for them); when the window is used
// up, it waits outside of the queue with a write of one byte.
func (s *Stream) writeChunk(p []byte) (int, error) {
	if !s.budgeted() {
		return s.y.Write(p)
	}
	if err := s.enterQueue(); err != nil {
		return 0, err
	}
	n, err := s.y.Write(p)
	<-s.session.budget
	if n > 0 && err == yamux.ErrTimeout {
		return n, nil
	}
	if n > 0 || err != yamux.ErrTimeout {
		return n, err
	}
	if !s.await(true) {
		return 0, yamux.ErrTimeout
	}
	n, err = s.y.Write(p[:1])
	s.await(false)
	return n, err
}

// await allows yamux to wait for the window, until the caller's deadline, or
// forbids it again. It reports false if there is nothing to wait for any more.
func (s *Stream) await(on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = on
	if !on || s.isClosed() {
		_ = s.y.SetWriteDeadline(past())
		return false
	}
	_ = s.y.SetWriteDeadline(s.writeDeadline)
	if s.session.woken() {
		_ = s.y.SetWriteDeadline(past())
	}
	return true
}

// enterQueue takes a place of the budget, first come, first served.
func (s *Stream) enterQueue() error {
	select {
	case s.session.budget <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.mu.Lock()
		deadline := s.writeDeadline
		s.mu.Unlock()
		var expired <-chan time.Time
		if !deadline.IsZero() {
			timer.Reset(time.Until(deadline))
			expired = timer.C
		}
		select {
		case s.session.budget <- struct{}{}:
			return nil
		case <-expired:
			return yamux.ErrTimeout
		case <-s.session.done:
			return yamux.ErrSessionShutdown
		case <-s.gone:
			return yamux.ErrStreamClosed
		case <-s.wake:
		}
	}
}
