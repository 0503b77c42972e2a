// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Changed hears of each sandbox once a commit has touched it or its services,
// when a reader sees the change already; and of nothing else.
func TestChanged(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		var heard []string
		var h *handle
		versions := map[string]uint64{}
		e.config.Changed = func(id string) {
			heard = append(heard, id)
			sb, _ := h.SandboxByID(t.Context(), id)
			versions[id] = sb.ResourceVersion
		}
		h = e.open(t)
		hears := func(what string, want ...string) {
			t.Helper()
			slices.Sort(heard)
			slices.Sort(want)
			if !slices.Equal(heard, want) {
				t.Errorf("%s: heard %q, want %q", what, heard, want)
			}
			heard = nil
		}
		a := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "a"})
		hears("a sandbox", a.ID)
		if versions[a.ID] != a.ResourceVersion {
			t.Errorf("version %d was read, want %d", versions[a.ID], a.ResourceVersion)
		}
		b := h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "b"})
		heard = nil
		var svc store.Service
		h.do(t, func(tx store.Tx) (err error) {
			if svc, err = tx.InsertService(store.Service{SandboxID: a.ID, Name: "web", Port: 80}); err != nil {
				return err
			}
			_, err = tx.InsertService(store.Service{SandboxID: b.ID, Name: "web", Port: 80})
			return err
		})
		hears("a service in each", a.ID, b.ID)
		h.do(t, func(tx store.Tx) (err error) {
			a, err = tx.UpdateSandbox(a)
			return err
		})
		hears("an update of a sandbox", a.ID)
		svc.Port = 81
		h.do(t, func(tx store.Tx) (err error) {
			svc, err = tx.UpdateService(svc)
			return err
		})
		hears("an update of a service", a.ID)
		h.do(t, func(tx store.Tx) (err error) {
			svc, err = tx.UpdateService(svc)
			return err
		})
		hears("an update that changes nothing")
		if err := h.try(func(tx store.Tx) error {
			return errors.Join(tx.DeleteService(svc.ID, 0), errors.New("no"))
		}); err == nil {
			t.Error("a transaction that failed has succeeded")
		}
		hears("what was rolled back")
		h.do(t, func(tx store.Tx) error { return tx.DeleteService(svc.ID, 0) })
		hears("a deletion of a service", a.ID)
		h.do(t, func(tx store.Tx) error { return tx.DeleteSandbox(b.ID) })
		hears("a deletion of a sandbox", b.ID)
		h.do(t, func(tx store.Tx) error {
			_, err := tx.SandboxByID(a.ID)
			return err
		})
		hears("a read")
	})
}
