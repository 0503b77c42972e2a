// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

const (
	// writePatience is how long a viewer may take to read one message.
	writePatience = 10 * time.Second
	// listFresh is how old a list of sandboxes may be that viewers share.
	listFresh = 2 * time.Second
	// listPatience is how long a message waits for the list of sandboxes.
	listPatience = time.Second
)

// events streams messages until the viewer leaves or is no longer signed in.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	remaining, ok := s.viewer(r)
	if !ok {
		http.Error(w, "sign in first", http.StatusUnauthorized)
		return
	}
	if !s.enter() {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	ctx, cancel := context.WithTimeout(r.Context(), remaining)
	defer cancel()
	out := &eventWriter{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that would wait
	if out.write("retry: 1000\n\n") != nil {
		return
	}
	v := &view{server: s, out: out}
	err := s.cfg.Source.Watch(ctx, func(m *sandboxv1.WatchServicesResponse) error { return v.send(ctx, m) })
	if err != nil && ctx.Err() == nil && !out.failed {
		_ = out.event("problem", map[string]string{"text": err.Error()})
	}
}

// view is one viewer's stream.
type view struct {
	server *Server
	out    *eventWriter
	listed uint64 // generation of the list that was sent last
}

// send passes a message of the watch on.
func (v *view) send(ctx context.Context, in *sandboxv1.WatchServicesResponse) error {
	m := message{Complete: in.GetComplete(), Removed: in.GetRemoved()}
	for _, w := range in.GetServices() {
		e := w.GetService().GetEndpoint()
		// It fails for a service that is gone by now, which the next message
		// says.
		past, err := v.server.cfg.Source.History(ctx, e.GetMetadata().GetWorkspace(), e.GetSandbox(), e.GetName())
		if err != nil {
			past = nil
		}
		m.Services = append(m.Services, serviceOf(w, past))
	}
	for _, a := range in.GetAges() {
		m.Ages = append(m.Ages, [2]uint32{a.GetNumber(), a.GetAgeMs()})
	}
	// With heartbeats, that changes wait for nothing.
	if in.GetComplete() && (v.listed == 0 || len(in.GetServices()) == 0) {
		if list, generation := v.server.sandboxes.get(ctx); generation != 0 && generation != v.listed {
			m.Sandboxes, v.listed = &list, generation
		}
	}
	return v.out.event("", m)
}

// listing is the list of sandboxes that all viewers share.
type listing struct {
	list func(context.Context) ([]*openshellv1.Sandbox, error)

	mu      sync.Mutex
	at      time.Time // of the latest attempt
	rows    []sandbox
	count   uint64
	current uint64 // generation of rows; 0: the latest attempt failed
}

// get returns the list, and 0 if it could not be had.
func (l *listing) get(ctx context.Context) ([]sandbox, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Since(l.at) < listFresh {
		return l.rows, l.current
	}
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	list, err := l.list(ctx)
	if l.at = time.Now(); err != nil { // nor do all others wait for it
		l.rows, l.current = nil, 0
		return nil, 0
	}
	rows := make([]sandbox, 0, len(list))
	for _, s := range list {
		rows = append(rows, sandboxOf(s))
	}
	l.count++
	l.rows, l.current = rows, l.count
	return rows, l.current
}

// eventWriter writes events, each within writePatience.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	failed  bool
}

func (e *eventWriter) event(name string, data any) error {
	b, err := json.Marshal(data) // one line
	if err != nil {
		return err
	}
	text := "data: " + string(b) + "\n\n"
	if name != "" {
		text = "event: " + name + "\n" + text
	}
	return e.write(text)
}

func (e *eventWriter) write(text string) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(writePatience)) // a test's writer has none
	_, err := e.w.Write([]byte(text))
	if err == nil {
		err = e.control.Flush()
	}
	e.failed = e.failed || err != nil
	return err
}
