// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// HTTP makes attempts over the loopback. It is safe for concurrent use.
type HTTP struct {
	userAgent string
	dial      dialFunc
	meter     stallMeter
	buffers   sync.Pool // of *[bufferSize]byte
}

// bufferSize holds the largest request and one read of a response. Responses
// are read in as many pieces as it takes.
const bufferSize = 4096

// NewHTTP returns an HTTP that sends userAgent, "sandbox-agent/<version>".
// Bytes of it that are not printable ASCII are left out.
func NewHTTP(userAgent string) *HTTP {
	printable := make([]byte, 0, len(userAgent))
	for i := range len(userAgent) {
		if c := userAgent[i]; ' ' <= c && c < 0x7f {
			printable = append(printable, c)
		}
	}
	h := &HTTP{userAgent: string(printable), dial: dialTCP}
	h.buffers.New = func() any { return new([bufferSize]byte) }
	return h
}

// Attempt probes t once and returns within AttemptTimeout, or as soon after that
// as this process runs. It ends early, as Inconclusive, when ctx ends. The
// connection is closed when it returns.
func (h *HTTP) Attempt(ctx context.Context, t Target) (a Attempt) {
	a.Start = time.Now()
	mark := h.meter.join(a.Start)
	a.Reason = Internal // stands if the attempt panics
	defer func() {
		_ = recover()
		a.End = time.Now()
		a.Latency = a.End.Sub(a.Start)
		a.Outcome = a.Reason.outcome()
		a = excuse(a, h.meter.leave(a.End, mark))
	}()
	if t.Validate() == nil {
		h.attempt(ctx, t, &a)
	}
	return a
}

// attempt fills in the reason, the address and the code.
func (h *HTTP) attempt(ctx context.Context, t Target, a *Attempt) {
	if ctx.Done() == nil {
		// The net package honours the deadline of such a context only.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	conn, addr, reason := dialLoopback(ctx, h.dial, t.Port, a.Start)
	if reason == OK {
		defer conn.Close()
		a.Addr = addr
		var hd head
		if reason = h.exchange(ctx, conn, addr, t, a.Start.Add(AttemptTimeout), &hd); reason == OK {
			a.Code = hd.code
		}
	}
	switch {
	case reason == OK:
		a.Reason = accept(t, a.Code)
	case ctx.Err() != nil:
		a.Reason = Internal
	default:
		a.Reason = reason
	}
}

// accept says whether code is what t has to answer.
func accept(t Target, code uint16) Reason {
	if t.Path == "" || 200 <= code && code <= 299 {
		return OK
	}
	return BadStatus
}

// exchange sends the request and reads response headers into hd.
func (h *HTTP) exchange(ctx context.Context, conn *net.TCPConn, addr netip.Addr, t Target, deadline time.Time, hd *head) Reason {
	buf := h.buffers.Get().(*[bufferSize]byte)
	defer h.buffers.Put(buf)
	if err := conn.SetDeadline(deadline); err != nil {
		return Internal
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	_, writeErr := conn.Write(appendRequest(buf[:0], t, h.userAgent))
	// A server may have answered and hung up without reading: what it said
	// counts, whatever became of the request.
	for {
		n, err := conn.Read(buf[:])
		if r := hd.read(buf[:n]); r != NoReason {
			return r
		}
		if err == nil {
			continue
		}
		r := classify(err, addr)
		switch {
		case r == Timeout && ctx.Err() == nil:
			return drain(conn, buf[:], hd)
		case r == Closed && writeErr != nil:
			return classify(writeErr, addr)
		}
		return r
	}
}

// drain reads what the kernel has received already, without waiting, after the
// deadline has passed: if this process was late, the answer may lie there. The
// end of the stream does not count, for it may be a consequence.
func drain(conn *net.TCPConn, buf []byte, hd *head) Reason {
	raw, err := conn.SyscallConn()
	if err != nil || conn.SetReadDeadline(time.Time{}) != nil {
		return Timeout
	}
	for {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			for {
				var err error
				if n, err = syscall.Read(int(fd), buf); err != syscall.EINTR {
					return true
				}
			}
		})
		if err != nil || n <= 0 {
			return Timeout
		}
		if r := hd.read(buf[:n]); r != NoReason {
			return r
		}
	}
}

// appendRequest appends the whole request for t.
func appendRequest(b []byte, t Target, userAgent string) []byte {
	path := t.Path
	if path == "" {
		path = "/"
	}
	b = append(b, "GET "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: localhost:"...)
	b = strconv.AppendUint(b, uint64(t.Port), 10)
	b = append(b, "\r\nUser-Agent: "...)
	b = append(b, userAgent...)
	return append(b, "\r\nAccept: */*\r\nConnection: close\r\n\r\n"...)
}
