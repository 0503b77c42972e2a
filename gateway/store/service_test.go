// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

func TestServiceRoundTrip(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		c := newClock()
		e.config.Now = c.now
		h := e.open(t)
		sb := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
		want := store.Service{
			ID: "5d0c0b3a-0000-4000-8000-000000000001", SandboxID: sb.ID, Name: "web", Port: 65535, Domain: true, HasCheck: true, Path: "/readyz",
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		}
		got := h.addService(t, want)
		want.Workspace, want.Sandbox = "w", "s"
		want.ResourceVersion, want.Revision = sb.ResourceVersion+1, sb.ResourceVersion+1
		want.Created = c.now().Truncate(time.Microsecond)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("inserted\n got %+v\nwant %+v", got, want)
		}
		if got, err := h.Service(t.Context(), "w", "s", "web"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read\n got %+v, %v\nwant %+v", got, err, want)
		}
		h.do(t, func(tx store.Tx) error {
			if got, err := tx.Service("w", "s", "web"); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("read in a transaction\n got %+v, %v\nwant %+v", got, err, want)
			}
			return nil
		})

		unnamed := h.addService(t, store.Service{SandboxID: sb.ID, Port: 1, Path: "/ignored"})
		if unnamed.Path != "" || len(unnamed.ID) != 36 {
			t.Errorf("without a check there is no path, and there is an id: %+v", unnamed)
		}
		if got := h.addService(t, store.Service{SandboxID: sb.ID, Name: "root", Port: 1, HasCheck: true}); got.Path != "/" {
			t.Errorf("path of a check = %q, want /", got.Path)
		}
		all, err := h.ServicesOf(t.Context(), sb.ID)
		if err != nil || len(all) != 3 || all[0].Name != "" || all[1].Name != "root" || all[2].Name != "web" {
			t.Errorf("services = %+v, %v: want all three by name", all, err)
		}
	})
}

func TestServiceRevision(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		sb := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
		svc := h.addService(t, store.Service{SandboxID: sb.ID, Name: "web", Port: 80})
		for _, test := range []struct {
			name              string
			change            func(*store.Service)
			version, revision bool // whether it moves
		}{
			{"nothing", func(s *store.Service) {}, false, false},
			{"empty for nil", func(s *store.Service) { s.Labels = map[string]string{} }, false, false},
			{"path without a check", func(s *store.Service) { s.Path = "/x" }, false, false},
			{"labels", func(s *store.Service) { s.Labels = map[string]string{"a": "1"} }, true, false},
			{"label's value", func(s *store.Service) { s.Labels = map[string]string{"a": "2"} }, true, false},
			{"annotations", func(s *store.Service) { s.Annotations = map[string]string{"a": "1"} }, true, false},
			{"domain", func(s *store.Service) { s.Domain = true }, true, false},
			{"identity", func(s *store.Service) { s.Name, s.Sandbox, s.Created = "other", "other", time.Time{} }, false, false},
			{"port", func(s *store.Service) { s.Port = 81 }, true, true},
			{"check added, path empty", func(s *store.Service) { s.HasCheck = true }, true, true},
			{"the same path spelled out", func(s *store.Service) { s.Path = "/" }, false, false},
			{"path", func(s *store.Service) { s.Path = "/readyz" }, true, true},
			{"port and labels", func(s *store.Service) { s.Port, s.Labels = 80, nil }, true, true},
			{"check removed", func(s *store.Service) { s.HasCheck = false }, true, true},
		} {
			next := svc
			test.change(&next)
			var got store.Service
			h.do(t, func(tx store.Tx) (err error) { got, err = tx.UpdateService(next); return err })
			if moved := got.ResourceVersion != svc.ResourceVersion; moved != test.version || got.ResourceVersion < svc.ResourceVersion {
				t.Errorf("%s: resource version %d after %d, want moved: %v", test.name, got.ResourceVersion, svc.ResourceVersion, test.version)
			}
			want := svc.Revision
			if test.revision {
				want = got.ResourceVersion
			}
			if got.Revision != want {
				t.Errorf("%s: revision %d, want %d", test.name, got.Revision, want)
			}
			if got.Name != "web" || got.Sandbox != "s" || !got.Created.Equal(svc.Created) {
				t.Errorf("%s: identity changed: %+v", test.name, got)
			}
			if read, err := h.Service(t.Context(), "w", "s", "web"); err != nil || !reflect.DeepEqual(read, got) {
				t.Errorf("%s: read\n got %+v, %v\nwant %+v", test.name, read, err, got)
			}
			svc = got
		}

		// Deleted and created again it is another configuration, also after a restart.
		h.do(t, func(tx store.Tx) error { return tx.DeleteService(svc.ID, svc.ResourceVersion) })
		h.close(t)
		h = e.open(t)
		if again := h.addService(t, store.Service{SandboxID: sb.ID, Name: "web", Port: 80}); again.Revision <= svc.ResourceVersion {
			t.Errorf("revision %d was used before: the last version was %d", again.Revision, svc.ResourceVersion)
		}
	})
}

func TestServiceErrors(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		sb := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
		svc := h.addService(t, store.Service{SandboxID: sb.ID, Name: "web", Port: 80})
		stale := svc
		stale.ResourceVersion--
		insert := func(s store.Service) func(store.Tx) error {
			return func(tx store.Tx) error { _, err := tx.InsertService(s); return err }
		}
		update := func(s store.Service) func(store.Tx) error {
			return func(tx store.Tx) error { _, err := tx.UpdateService(s); return err }
		}
		for _, test := range []struct {
			name string
			fn   func(store.Tx) error
			want error
		}{
			{"insert a taken name", insert(store.Service{SandboxID: sb.ID, Name: "web"}), store.ErrExists},
			{"insert a taken id", insert(store.Service{ID: svc.ID, SandboxID: sb.ID, Name: "x"}), store.ErrExists},
			{"insert without a sandbox", insert(store.Service{SandboxID: "none", Name: "web"}), store.ErrNotFound},
			{"insert text with a NUL", insert(store.Service{SandboxID: sb.ID, Name: "\x00"}), store.ErrInvalid},
			{"update with an older version", update(stale), store.ErrConflict},
			{"update nothing", update(store.Service{ID: "none"}), store.ErrNotFound},
			{"update with text that is not UTF-8", update(store.Service{ID: svc.ID, Path: "\xff"}), store.ErrInvalid},
			{"delete nothing", func(tx store.Tx) error { return tx.DeleteService("none", 0) }, store.ErrNotFound},
			{"delete an older version", func(tx store.Tx) error { return tx.DeleteService(svc.ID, stale.ResourceVersion) }, store.ErrConflict},
			{"read nothing", func(tx store.Tx) error { _, err := tx.Service("w", "s", "none"); return err }, store.ErrNotFound},
		} {
			if err := h.try(test.fn); !errors.Is(err, test.want) {
				t.Errorf("%s: error %v, want %v", test.name, err, test.want)
			}
		}
		if _, err := h.Service(t.Context(), "w", "s", "none"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("read: error %v, want ErrNotFound", err)
		}
		h.do(t, func(tx store.Tx) error { return tx.DeleteService(svc.ID, 0) })
		if all, err := h.ServicesOf(t.Context(), sb.ID); err != nil || len(all) != 0 {
			t.Errorf("after the delete: %+v, %v", all, err)
		}
	})
}

func TestServiceLimit(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		sb := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
		other := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "other"})
		h.do(t, func(tx store.Tx) error {
			for i := range store.MaxServices {
				if _, err := tx.InsertService(store.Service{SandboxID: sb.ID, Name: fmt.Sprint(i), Port: 1}); err != nil {
					return fmt.Errorf("service %d: %w", i, err)
				}
			}
			if _, err := tx.InsertService(store.Service{SandboxID: sb.ID, Name: "one-too-many"}); !errors.Is(err, store.ErrTooMany) {
				t.Errorf("service %d: error %v, want ErrTooMany", store.MaxServices, err)
			}
			if _, err := tx.InsertService(store.Service{SandboxID: sb.ID, Name: "7"}); !errors.Is(err, store.ErrExists) {
				t.Errorf("a name that exists in a full sandbox: error %v, want ErrExists", err)
			}
			return nil
		})
		if all, err := h.ServicesOf(t.Context(), sb.ID); err != nil || len(all) != store.MaxServices {
			t.Errorf("%d services, %v: want %d", len(all), err, store.MaxServices)
		}
		h.addService(t, store.Service{SandboxID: other.ID, Name: "elsewhere"})
		// The services go with their sandbox, and only they.
		h.do(t, func(tx store.Tx) error { return tx.DeleteSandbox(sb.ID) })
		all, err := h.Services(t.Context(), store.ServiceQuery{AllSandboxes: true})
		if err != nil || len(all) != 1 || all[0].Name != "elsewhere" {
			t.Errorf("after the delete: %+v, %v", all, err)
		}
	})
}
