// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"io"
	"net"
	"os"
	"time"
)

// Write sends p in frames of at most 8 KiB, or greater ones of a great transfer
// on a fast connection, and returns when the connection has taken the last one.
// It waits while the peer has 256 KiB unread, or more of a stream that it reads
// fast. After an error the number of
// bytes that arrive is not known.
func (s *Stream) Write(p []byte) (int, error) {
	return s.write(len(p), func(from, to int) error { return s.session.out.data(s.id, p[from:to]) })
}

// writeInPlace is Write of what stands in buf behind frameHeader bytes of room.
// The headers are put before the frames, over what is sent already.
func (s *Stream) writeInPlace(buf []byte) (int, error) {
	return s.write(len(buf)-frameHeader, func(from, to int) error {
		return s.session.out.inPlace(s.id, buf[from:frameHeader+to])
	})
}

// ReadFrom writes what r has until that ends, as io.Copy does, in frames as great
// as Write makes them.
func (s *Stream) ReadFrom(r io.Reader) (total int64, err error) {
	var buf buffer
	defer buf.release()
	for {
		into := buf.next()
		n, err := r.Read(into[frameHeader:])
		if n > 0 {
			written, err := s.writeInPlace(into[:frameHeader+n])
			total += int64(written)
			if err != nil {
				return total, err
			}
			buf.took(n)
		}
		switch err {
		case nil:
		case io.EOF:
			return total, nil
		default:
			return total, err
		}
	}
}

// write sends size bytes in frames, each of which send makes and sends.
func (s *Stream) write(size int, send func(from, to int) error) (int, error) {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	total := 0
	for {
		if err := s.writable(); err != nil || total == size {
			return total, err
		}
		began := s.pace.begin()
		n, err := s.writeChunk(min(size-total, s.pace.chunk()), func(n int) error { return send(total, total+n) })
		s.pace.sent(n, began)
		total += n
		if err != nil {
			return total, err
		}
	}
}

func (s *Stream) writable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state.closed, s.state.writeEnded:
		return net.ErrClosed
	case s.session.ended(): // the stream may not have been told yet
		return s.session.over()
	case s.state.reset:
		return ErrReset
	case passed(s.writeDeadline):
		return os.ErrDeadlineExceeded
	}
	return nil
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

// budgeted streams share the session's budget of frames before the connection.
func (s *Stream) budgeted() bool { return s.kind != KindControl }

// writeChunk sends some or all of a chunk, and returns how much. A relay stream
// must not hold a place before the connection while it waits for its reader: it
// waits for that first.
func (s *Stream) writeChunk(size int, send func(n int) error) (int, error) {
	n, err := s.spend(size)
	if err != nil {
		return 0, err
	}
	if s.budgeted() {
		if err := s.wait(s.session.budget); err != nil {
			s.grow(n)
			return 0, err
		}
		defer func() { <-s.session.budget }()
	}
	if send(n) != nil {
		return 0, s.session.over()
	}
	return n, nil
}

// spend takes up to n bytes of what the peer will take, at least one, and waits
// for that.
func (s *Stream) spend(n int) (int, error) {
	for {
		s.mu.Lock()
		got := max(0, min(n, s.credit))
		s.credit -= got
		s.mu.Unlock()
		if got > 0 {
			return got, nil
		}
		if err := s.wait(nil); err != nil {
			return 0, err
		}
	}
}

// wait takes a place of the budget, first come, first served; or, without one,
// returns once there is credit.
func (s *Stream) wait(budget chan struct{}) error {
	select {
	case budget <- struct{}{}:
		return nil
	default:
	}
	var timer *time.Timer
	for {
		s.mu.Lock()
		credit, deadline, state := s.credit, s.writeDeadline, s.state
		s.mu.Unlock()
		switch {
		case state.closed || state.writeEnded:
			return net.ErrClosed
		case state.reset:
			return ErrReset
		case budget == nil && credit > 0:
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
			return os.ErrDeadlineExceeded
		case <-s.session.done:
			return s.session.over()
		case <-s.gone:
			return net.ErrClosed
		case <-s.wake:
		}
	}
}
