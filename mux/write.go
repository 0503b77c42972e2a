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
// on a fast connection, and returns when the connection has taken the last one.
// It waits while 256 KiB are unread by the peer. After an error the number of
// bytes that arrive is not known.
func (s *Stream) Write(p []byte) (int, error) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	total := 0
	for {
		if err := s.writable(); err != nil || total == len(p) {
			return total, err
		}
		chunk := p[total:min(len(p), total+s.pace.chunk())]
		began := s.pace.begin()
		n, err := s.writeChunk(chunk)
		s.pace.sent(n, began)
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
	case s.isClosed(), s.writeEnded:
		return net.ErrClosed
	case s.session.ended(): // yamux may not have noticed yet
		return s.session.over()
	case s.peerReset():
		return ErrReset
	case !s.writeDeadline.IsZero() && time.Until(s.writeDeadline) <= 0:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (s *Stream) peerReset() bool {
	_, reset := s.account.state()
	return reset
}

// The size of a frame decides how long a report waits on a slow link, what a
// session keeps of a transfer (the buffers of TLS, until the next collection our
// own), and what a GB costs. So only who has much to send, on a connection that
// takes it fast, gets great ones.

const (
	paceBytes = 1 << 20                // over which the pace is taken
	fastPace  = 100 * time.Millisecond // for them
	slowFrame = 25 * time.Millisecond  // for a great frame
)

// pace is how fast a stream's bytes are taken.
type pace struct {
	bytes int
	since time.Time
	fast  bool
}

func (p *pace) chunk() int {
	if p.fast {
		return bulkChunk
	}
	return maxChunk
}

// begin returns when a frame begins, if that matters.
func (p *pace) begin() (t time.Time) {
	if p.fast {
		t = time.Now()
	}
	return t
}

func (p *pace) sent(n int, began time.Time) {
	if p.bytes += n; p.bytes < paceBytes && !p.fast {
		return
	}
	now := time.Now()
	if p.fast && now.Sub(began) > slowFrame {
		*p = pace{since: now}
	}
	if p.bytes >= paceBytes {
		p.fast = now.Sub(p.since) < fastPace
		p.bytes, p.since = 0, now
	}
}

// budgeted streams share the session's budget of queued frames.
func (s *Stream) budgeted() bool { return s.kind != KindControl }

// writeChunk sends some or all of a chunk. The data of relay streams does not go
// through yamux, which would hand it to a goroutine of its own and wait for that;
// the window is counted here instead. A relay stream must not hold a place in
// the queue while it waits for its reader: it waits for that first.
func (s *Stream) writeChunk(p []byte) (int, error) {
	if !s.budgeted() {
		return s.y.Write(p)
	}
	n, err := s.take(len(p))
	if err != nil {
		return 0, err
	}
	if err := s.wait(s.session.budget); err != nil {
		s.account.grow(n)
		return 0, err
	}
	err = s.session.conn.data(s.y.StreamID(), p[:n])
	<-s.session.budget
	if err != nil {
		return 0, yamux.ErrSessionShutdown
	}
	return n, nil
}

// take takes up to n bytes of the window, at least one, and waits for that.
func (s *Stream) take(n int) (int, error) {
	for {
		if got := s.account.take(n); got > 0 {
			return got, nil
		}
		if err := s.wait(nil); err != nil {
			return 0, err
		}
	}
}

// wait takes a place of the budget, first come, first served; or, without one,
// returns once the window may have grown. Its errors are those of yamux.
func (s *Stream) wait(budget chan struct{}) error {
	select {
	case budget <- struct{}{}:
		return nil
	default:
	}
	var timer *time.Timer
	for {
		open, reset := s.account.state()
		s.mu.Lock()
		deadline, ended := s.writeDeadline, s.writeEnded
		s.mu.Unlock()
		switch {
		case reset:
			return yamux.ErrConnectionReset
		case ended:
			return yamux.ErrStreamClosed
		case budget == nil && open:
			return nil
		}
		var expired <-chan time.Time
		if !deadline.IsZero() {
			if timer == nil {
				timer = time.NewTimer(time.Until(deadline))
				defer timer.Stop()
			} else {
				timer.Reset(time.Until(deadline))
			}
			expired = timer.C
		}
		select {
		case budget <- struct{}{}:
			return nil
		case <-expired:
			return yamux.ErrTimeout
		case <-s.session.done:
			return yamux.ErrSessionShutdown
		case <-s.gone:
			return yamux.ErrStreamClosed
		case <-s.account.wake:
		}
	}
}
