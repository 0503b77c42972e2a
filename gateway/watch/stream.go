// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
)

// Heartbeat is how often a watch sends ages. The contract's five seconds leave
// room for the network.
const Heartbeat = 4 * time.Second

// maxNames is how many services a request may name.
const maxNames = 256

type stream = grpc.ServerStreamingServer[sandboxv1.WatchServicesResponse]

// WatchServices implements sandbox.v1.
func (s *Server) WatchServices(r *sandboxv1.WatchServicesRequest, out stream) error {
	f, err := filterOf(r)
	if err != nil {
		return err
	}
	leave, err := s.callers.watches.enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := s.settle(out.Context()); err != nil {
		return err
	}
	me := s.callers.add(f)
	defer s.callers.remove(me)
	ids, services := s.selected(f)
	if services > MaxServices {
		return errTooWide
	}
	w := &watch{server: s, caller: me, out: out, view: newView(f, s.cfg.URLs, s.cfg.Started)}
	if err := w.first(ids); err != nil {
		return err
	}
	return w.follow()
}

// filterOf checks a request.
func filterOf(r *sandboxv1.WatchServicesRequest) (f filter, err error) {
	if f.workspace, err = api.Workspaces(r.GetWorkspaceScope()); err != nil {
		return f, err
	}
	if f.sandbox = r.GetSandbox(); f.sandbox != "" {
		if f.workspace == "" {
			return f, api.Invalid("sandbox", "%.64q cannot be asked for in all workspaces; name its workspace", f.sandbox)
		}
		if err := api.ValidName("sandbox", f.sandbox); err != nil {
			return f, err
		}
	}
	if len(r.GetServices()) > maxNames {
		return f, api.Invalid("services", "has %d names; at most %d are allowed", len(r.GetServices()), maxNames)
	}
	for i, name := range r.GetServices() {
		if name == "" {
			continue
		}
		if err := api.ValidName(fmt.Sprintf("services[%d]", i), name); err != nil {
			return f, err
		}
	}
	f.services = r.GetServices()
	f.labels, err = api.Selector(r.GetLabelSelector())
	return f, err
}

var errTooWide = status.Errorf(codes.ResourceExhausted, "the watch selects more than %d services: name a workspace, a sandbox or a label", MaxServices)

// selected returns the sandboxes that a filter selects now, in the order of
// their names, and how many services of them.
func (s *Server) selected(f filter) (ids []string, services int) {
	var list []*record
	s.state.RLock()
	if f.sandbox != "" {
		if r := s.sights[s.names[sandboxName{f.workspace, f.sandbox}]].record; f.sandboxes(r) {
			list = append(list, r)
		}
	} else {
		for _, seen := range s.sights {
			if f.sandboxes(seen.record) {
				list = append(list, seen.record)
			}
		}
	}
	s.state.RUnlock()
	slices.SortFunc(list, func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.workspace, b.workspace), cmp.Compare(a.name, b.name))
	})
	wants := f.wants()
	for _, r := range list {
		ids = append(ids, r.id)
		for _, svc := range r.services {
			if wants == nil || wants(svc.Name) {
				services++
			}
		}
	}
	return ids, services
}

// watch is one WatchServices under way.
type watch struct {
	server *Server
	caller *caller
	out    stream
	view   *view
}

// first sends the full state. What is sent is looked at just before.
func (w *watch) first(ids []string) error {
	if err := w.look(ids); err != nil {
		return err
	}
	w.view.complete = true
	return w.out.Send(w.view.message())
}

// look looks at some sandboxes and sends what is new in messages of bearable
// size; the last of them is left to the caller.
func (w *watch) look(ids []string) error {
	for _, id := range ids {
		seen, now := w.server.see(id)
		w.view.look(id, seen, now)
		if w.view.book.size > MaxServices {
			return errTooWide
		}
		if w.view.full() {
			if err := w.out.Send(w.view.message()); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow sends what changes, and ages, until the client leaves or the gateway
// stops.
func (w *watch) follow() error {
	alarm := newAlarm()
	defer alarm.stop()
	beat := time.NewTicker(Heartbeat)
	defer beat.Stop()
	for {
		alarm.set(w.view.book.next())
		var err error
		select {
		case <-w.caller.marks.wake:
			ids, _ := w.caller.marks.take()
			err = w.look(ids)
		case <-alarm.c():
			err = w.look(w.view.book.due(time.Now()))
		case <-beat.C:
			err = w.beat()
		case <-w.server.closed:
			return errClosing
		case <-w.out.Context().Done():
			return status.FromContextError(w.out.Context().Err()).Err()
		}
		if err == nil && !w.view.empty() {
			err = w.out.Send(w.view.message())
		}
		if err != nil {
			return err
		}
	}
}

// beat sends the ages, after whatever they make new.
func (w *watch) beat() error {
	ids := slices.Collect(maps.Keys(w.view.book.pages))
	if err := w.look(ids); err != nil {
		return err
	}
	m := w.view.message()
	for _, id := range ids {
		seen, now := w.server.see(id)
		m.Ages = append(m.Ages, w.view.ages(id, seen, now)...)
	}
	return w.out.Send(m)
}
