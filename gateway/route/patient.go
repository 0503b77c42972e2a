// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

// patient is a connection whose peer may take its time, but not for ever: a
// write must make progress, and once our end is over so must reading.
type patient struct {
	mux.Duplex
	patience mux.Patience
	early    *bufio.Reader // what was read ahead; nil once it is used up
	half     atomic.Bool
	extended atomic.Int64 // when the deadline for writing was set, in Unix nanoseconds

	// Of a relay: the context of the request that it is given to, and whether
	// that request was given up.
	given   atomic.Pointer[context.Context]
	aborted atomic.Bool
}

// Write writes as long as there is progress.
func (p *patient) Write(b []byte) (int, error) {
	now := time.Now()
	if last := p.extended.Load(); now.UnixNano()-last > int64(p.patience.Stall/8) && p.extended.CompareAndSwap(last, now.UnixNano()) {
		_ = p.SetWriteDeadline(now.Add(p.patience.Stall))
	}
	return p.Duplex.Write(b)
}

// Read reads without a bound while our end is open.
func (p *patient) Read(b []byte) (int, error) {
	if p.early != nil {
		if n := p.early.Buffered(); n > 0 {
			return p.early.Read(b[:min(len(b), n)])
		}
		p.early = nil
	}
	if p.half.Load() {
		_ = p.SetReadDeadline(time.Now().Add(p.patience.Linger))
	}
	return p.Duplex.Read(b)
}

// CloseWrite ends our end.
func (p *patient) CloseWrite() error {
	p.half.Store(true)
	_ = p.SetReadDeadline(time.Now().Add(p.patience.Linger))
	return p.Duplex.CloseWrite()
}

// Close ends the connection: a relay whose request was given up, by a reset.
func (p *patient) Close() error {
	ctx := p.given.Load()
	if p.aborted.Load() || ctx != nil && (*ctx).Err() != nil {
		mux.Abort(p.Duplex)
		return nil
	}
	return p.Duplex.Close()
}

// closeOnly is a connection without half-close.
type closeOnly struct{ net.Conn }

func (c closeOnly) CloseWrite() error { return c.Close() }

// writer is a ResponseWriter that waits for a slow client as patiently as
// patient does.
type writer struct {
	http.ResponseWriter
	control  *http.ResponseController
	router   *Router
	extended time.Time
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer, or sends an interim one. The server would guess
// the type of one that says none.
func (w *writer) WriteHeader(status int) {
	w.extend()
	if h := w.Header(); len(h["Content-Type"]) == 0 {
		h["Content-Type"] = nil
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes as long as there is progress.
func (w *writer) Write(b []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.extend()
	return w.control.Flush()
}

func (w *writer) extend() {
	stall := w.router.patience.Stall
	if now := time.Now(); now.Sub(w.extended) > stall/8 {
		w.extended = now
		// An error means that there are no deadlines, as in some tests.
		_ = w.control.SetWriteDeadline(now.Add(stall))
	}
}

// Hijack gives the connection to a service that has switched protocols.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	// The server's deadlines are not ours.
	_ = conn.SetDeadline(time.Time{})
	duplex, ok := conn.(mux.Duplex)
	if !ok {
		duplex = closeOnly{conn}
	}
	p := &patient{Duplex: duplex, patience: w.router.patience, early: rw.Reader}
	return w.router.hold(p), rw, nil
}
