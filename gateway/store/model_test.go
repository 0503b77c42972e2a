// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// model is the store as two maps.
type model struct {
	now       func() time.Time
	version   uint64 // highest ever seen
	sandboxes map[string]store.Sandbox
	services  map[string]store.Service
}

// fresh checks that a version is newer than all before.
func (m *model) fresh(v uint64) error {
	if v <= m.version {
		return fmt.Errorf("version %d is not above %d", v, m.version)
	}
	m.version = v
	return nil
}

func (m *model) instant() time.Time { return m.now().Truncate(time.Microsecond) }

func (m *model) insertSandbox(s store.Sandbox) (store.Sandbox, error) {
	for _, o := range m.sandboxes {
		if o.ID == s.ID || o.Workspace == s.Workspace && o.Name == s.Name {
			return store.Sandbox{}, store.ErrExists
		}
	}
	s.Generation, s.Lifecycle, s.Created, s.Changed = 1, store.Running, m.instant(), m.instant()
	m.sandboxes[s.ID] = s
	return s, nil
}

func (m *model) updateSandbox(s store.Sandbox) (store.Sandbox, error) {
	old, ok := m.sandboxes[s.ID]
	switch {
	case !ok:
		return store.Sandbox{}, store.ErrNotFound
	case old.ResourceVersion != s.ResourceVersion:
		return store.Sandbox{}, store.ErrConflict
	}
	if s.Lifecycle != old.Lifecycle {
		s.Changed = m.instant()
	}
	m.sandboxes[s.ID] = s
	return s, nil
}

func (m *model) deleteSandbox(id string) error {
	if _, ok := m.sandboxes[id]; !ok {
		return store.ErrNotFound
	}
	delete(m.sandboxes, id)
	maps.DeleteFunc(m.services, func(_ string, s store.Service) bool { return s.SandboxID == id })
	return nil
}

func (m *model) insertService(s store.Service) (store.Service, error) {
	owner, ok := m.sandboxes[s.SandboxID]
	if !ok {
		return store.Service{}, store.ErrNotFound
	}
	for _, o := range m.services {
		if o.ID == s.ID || o.SandboxID == s.SandboxID && o.Name == s.Name {
			return store.Service{}, store.ErrExists
		}
	}
	s.Workspace, s.Sandbox, s.Created = owner.Workspace, owner.Name, m.instant()
	m.services[s.ID] = s
	return s, nil
}

func (m *model) updateService(s store.Service) (_ store.Service, changed, configured bool, err error) {
	old, ok := m.services[s.ID]
	switch {
	case !ok:
		return store.Service{}, false, false, store.ErrNotFound
	case old.ResourceVersion != s.ResourceVersion:
		return store.Service{}, false, false, store.ErrConflict
	}
	configured = s.Port != old.Port || s.HasCheck != old.HasCheck || s.Path != old.Path
	changed = configured || s.Domain != old.Domain || !maps.Equal(s.Labels, old.Labels)
	m.services[s.ID] = s
	return s, changed, configured, nil
}

// TestModel runs random sequences of mutations on the store and the model, and
// compares every answer and, now and then, everything.
func TestModel(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		c := newClock()
		e.config.Now = c.now
		h := e.open(t)
		m := &model{now: c.now, sandboxes: map[string]store.Sandbox{}, services: map[string]store.Service{}}
		for i := range 600 {
			c.advance(time.Duration(r.IntN(1000)) * time.Millisecond)
			var err error
			if txErr := h.try(func(tx store.Tx) error { err = m.step(r, tx); return nil }); txErr != nil {
				t.Fatalf("step %d: %v", i, txErr)
			}
			if err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			switch {
			case i%200 == 199:
				h.close(t)
				h = e.open(t)
				fallthrough
			case i%20 == 0:
				m.compare(t, h)
			}
		}
	})
}

// step makes one random mutation of both; ids and names are few, so they meet.
func (m *model) step(r *rand.Rand, tx store.Tx) error {
	pick := func(what string, n int) string { return fmt.Sprintf("%s-%d", what, r.IntN(n)) }
	id, sid := pick("id", 12), pick("svc", 60)
	labels := []map[string]string{nil, {"a": "1"}, {"a": "2", "b": ""}}[r.IntN(3)]
	switch r.IntN(7) {
	case 0:
		s := store.Sandbox{ID: id, Workspace: pick("w", 2), Name: pick("n", 8), Labels: labels}
		got, err := tx.InsertSandbox(s)
		want, wantErr := m.insertSandbox(s)
		if err == nil {
			want.ResourceVersion = got.ResourceVersion
			m.sandboxes[s.ID] = want
		}
		return cmp.Or(same("insert sandbox", got, err, want, wantErr), m.freshIf(err == nil, got.ResourceVersion))
	case 1, 2:
		s := m.sandboxes[id]
		s.ID = id
		s.Labels, s.Instance = labels, pick("i", 3)
		s.Lifecycle = []store.Lifecycle{store.Running, store.Stopping, store.Stopped}[r.IntN(3)]
		s.Generation += uint64(r.IntN(2))
		s.ResourceVersion -= uint64(r.IntN(6) / 5) // now and then an old one
		got, err := tx.UpdateSandbox(s)
		want, wantErr := m.updateSandbox(s)
		if err == nil {
			want.ResourceVersion = got.ResourceVersion
			m.sandboxes[s.ID] = want
		}
		return cmp.Or(same("update sandbox", got, err, want, wantErr), m.freshIf(err == nil, got.ResourceVersion))
	case 3:
		if r.IntN(3) > 0 {
			return nil // rarely, or there is never much
		}
		return same("delete sandbox", 0, tx.DeleteSandbox(id), 0, m.deleteSandbox(id))
	case 4, 5:
		s := store.Service{ID: sid, SandboxID: id, Name: pick("n", 5), Port: uint16(r.IntN(3)), Labels: labels}
		got, err := tx.InsertService(s)
		want, wantErr := m.insertService(s)
		if err == nil {
			want.ResourceVersion, want.Revision = got.ResourceVersion, got.ResourceVersion
			m.services[s.ID] = want
		}
		return cmp.Or(same("insert service", got, err, want, wantErr), m.freshIf(err == nil, got.ResourceVersion))
	}
	return m.changeService(r, tx, sid, labels)
}

// changeService updates or deletes a service.
func (m *model) changeService(r *rand.Rand, tx store.Tx, id string, labels map[string]string) error {
	s := m.services[id]
	s.ID = id
	s.ResourceVersion -= uint64(r.IntN(6) / 5)
	if r.IntN(4) == 0 {
		err := tx.DeleteService(id, s.ResourceVersion)
		old, ok := m.services[id]
		var want error
		switch {
		case !ok:
			want = store.ErrNotFound
		case s.ResourceVersion != old.ResourceVersion:
			want = store.ErrConflict
		default:
			delete(m.services, id)
		}
		return same("delete service", 0, err, 0, want)
	}
	if r.IntN(2) == 0 {
		s.Labels, s.Domain = labels, r.IntN(2) == 0
	} else {
		s.HasCheck = r.IntN(2) == 0
		s.Port, s.Path = uint16(r.IntN(3)), ""
		if s.HasCheck {
			s.Path = []string{"/", "/a"}[r.IntN(2)]
		}
	}
	before := m.services[id].Revision
	got, err := tx.UpdateService(s)
	want, changed, configured, wantErr := m.updateService(s)
	if err == nil {
		if changed {
			want.ResourceVersion = got.ResourceVersion
		}
		want.Revision = before
		if configured {
			want.Revision = got.ResourceVersion
		}
		m.services[id] = want
	}
	return cmp.Or(same("update service", got, err, want, wantErr), m.freshIf(err == nil && changed, got.ResourceVersion))
}

func (m *model) freshIf(written bool, v uint64) error {
	if !written {
		return nil
	}
	return m.fresh(v)
}

func same(op string, got any, err error, want any, wantErr error) error {
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		return fmt.Errorf("%s: error %v, want %v", op, err, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s:\n got %+v\nwant %+v", op, got, want)
	}
	return nil
}

// compare reads everything in every way.
func (m *model) compare(t *testing.T, h *handle) {
	t.Helper()
	sandboxes := slices.SortedFunc(maps.Values(m.sandboxes), func(a, b store.Sandbox) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
	})
	got, err := h.Sandboxes(t.Context(), store.SandboxQuery{})
	if err := same("list sandboxes", got, err, sandboxes, nil); err != nil {
		t.Fatal(err)
	}
	services := slices.SortedFunc(maps.Values(m.services), func(a, b store.Service) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Sandbox, b.Sandbox), cmp.Compare(a.Name, b.Name))
	})
	gotServices, err := h.Services(t.Context(), store.ServiceQuery{AllSandboxes: true})
	if err := same("list services", gotServices, err, services, nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes {
		got, err := h.Sandbox(t.Context(), s.Workspace, s.Name)
		if err := same("read sandbox", got, err, s, nil); err != nil {
			t.Fatal(err)
		}
		var own []store.Service
		for _, svc := range services {
			if svc.SandboxID == s.ID {
				own = append(own, svc)
			}
		}
		gotOwn, err := h.ServicesOf(t.Context(), s.ID)
		if err := same("services of", gotOwn, err, own, nil); err != nil {
			t.Fatal(err)
		}
	}
}
