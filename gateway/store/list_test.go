// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

func TestSandboxQueries(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		for _, s := range []store.Sandbox{
			{Workspace: "b", Name: "a", Labels: map[string]string{"team": "x", "a.b": "1"}},
			{Workspace: "a", Name: "z", Labels: map[string]string{"team": "x", "empty": ""}},
			{Workspace: "a", Name: "b", Labels: map[string]string{"team": "y", "Team": "x"}},
			{Workspace: "a", Name: "B"},
			{Workspace: "a", Name: "a-b"},
			{Workspace: "a", Name: "ab", Labels: map[string]string{"it's \"odd\"": "100%"}},
			{Workspace: "a", Name: "é"},
		} {
			h.addSandbox(t, s)
		}
		after := func(workspace, name string) store.Cursor {
			return store.Cursor{Workspace: workspace, Name: name, Set: true}
		}
		for _, test := range []struct {
			name  string
			query store.SandboxQuery
			want  string
		}{
			{"all, bytewise", store.SandboxQuery{}, "[a/B a/a-b a/ab a/b a/z a/é b/a]"},
			{"a workspace", store.SandboxQuery{Workspace: "b"}, "[b/a]"},
			{"an unknown workspace", store.SandboxQuery{Workspace: "c"}, "[]"},
			{"limit", store.SandboxQuery{Limit: 2}, "[a/B a/a-b]"},
			{"after", store.SandboxQuery{After: after("a", "b")}, "[a/z a/é b/a]"},
			{"after a name that is gone", store.SandboxQuery{After: after("a", "c"), Limit: 1}, "[a/z]"},
			{"after the last of a workspace", store.SandboxQuery{After: after("a", "é")}, "[b/a]"},
			{"after, within a workspace", store.SandboxQuery{Workspace: "a", After: after("a", "z")}, "[a/é]"},
			{"after all", store.SandboxQuery{After: after("b", "a")}, "[]"},
			{"an empty cursor that is set", store.SandboxQuery{After: store.Cursor{Set: true}, Limit: 1}, "[a/B]"},
			{"a cursor that is not set", store.SandboxQuery{After: store.Cursor{Workspace: "b", Name: "a"}, Limit: 1}, "[a/B]"},
			{"label", store.SandboxQuery{Labels: map[string]string{"team": "x"}}, "[a/z b/a]"},
			{"labels", store.SandboxQuery{Labels: map[string]string{"team": "x", "a.b": "1"}}, "[b/a]"},
			{"label, case", store.SandboxQuery{Labels: map[string]string{"Team": "x"}}, "[a/b]"},
			{"label with an empty value", store.SandboxQuery{Labels: map[string]string{"empty": ""}}, "[a/z]"},
			{"label that is absent is not empty", store.SandboxQuery{Labels: map[string]string{"a.b": ""}}, "[]"},
			{"label with quotes", store.SandboxQuery{Labels: map[string]string{"it's \"odd\"": "100%"}}, "[a/ab]"},
			{"label, page", store.SandboxQuery{Labels: map[string]string{"team": "x"}, After: after("a", "z"), Limit: 5}, "[b/a]"},
		} {
			all, err := h.Sandboxes(t.Context(), test.query)
			keys := []string{}
			for _, s := range all {
				keys = append(keys, s.Workspace+"/"+s.Name)
			}
			if got := fmt.Sprint(keys); err != nil || got != test.want {
				t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
			}
		}
		for _, q := range []store.SandboxQuery{
			{Workspace: "\x00"},
			{Labels: map[string]string{"a": "\xff"}},
			{After: store.Cursor{Name: "\x00", Set: true}},
		} {
			if _, err := h.Sandboxes(t.Context(), q); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%+v: error %v, want ErrInvalid", q, err)
			}
		}
	})
}

func TestServiceQueries(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		for _, key := range [][2]string{{"b", "s"}, {"a", "t"}, {"a", "s"}} {
			sb := h.addSandbox(t, store.Sandbox{Workspace: key[0], Name: key[1]})
			for _, name := range []string{"web", "", "api"} {
				h.addService(t, store.Service{SandboxID: sb.ID, Name: name, Port: 8080})
			}
		}
		after := func(workspace, sandbox, name string) store.Cursor {
			return store.Cursor{Workspace: workspace, Sandbox: sandbox, Name: name, Set: true}
		}
		for _, test := range []struct {
			name  string
			query store.ServiceQuery
			want  string
		}{
			{"all", store.ServiceQuery{AllSandboxes: true}, "[a/s/ a/s/api a/s/web a/t/ a/t/api a/t/web b/s/ b/s/api b/s/web]"},
			{"a workspace", store.ServiceQuery{Workspace: "b", AllSandboxes: true}, "[b/s/ b/s/api b/s/web]"},
			{"a sandbox", store.ServiceQuery{Workspace: "a", Sandbox: "t"}, "[a/t/ a/t/api a/t/web]"},
			{"a name in all workspaces", store.ServiceQuery{Sandbox: "s"}, "[a/s/ a/s/api a/s/web b/s/ b/s/api b/s/web]"},
			{"all sandboxes, the name is ignored", store.ServiceQuery{Workspace: "b", Sandbox: "t", AllSandboxes: true, Limit: 1}, "[b/s/]"},
			{"no sandbox", store.ServiceQuery{Workspace: "a"}, "[]"},
			{"page", store.ServiceQuery{AllSandboxes: true, After: after("a", "s", "web"), Limit: 2}, "[a/t/ a/t/api]"},
			{"page that starts at the unnamed one", store.ServiceQuery{AllSandboxes: true, After: after("a", "t", ""), Limit: 1}, "[a/t/api]"},
			{"page within a sandbox", store.ServiceQuery{Workspace: "a", Sandbox: "s", After: after("a", "s", "api")}, "[a/s/web]"},
		} {
			all, err := h.Services(t.Context(), test.query)
			keys := []string{}
			for _, s := range all {
				keys = append(keys, s.Workspace+"/"+s.Sandbox+"/"+s.Name)
			}
			if got := fmt.Sprint(keys); err != nil || got != test.want {
				t.Errorf("%s: %s, %v; want %s", test.name, got, err, test.want)
			}
		}
		if _, err := h.Services(t.Context(), store.ServiceQuery{Sandbox: "\xff"}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid", err)
		}
	})
}

// Pages lose and repeat nothing that exists throughout, while others come and go.
func TestPagingUnderConcurrentWrites(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		const stable = 60
		h.do(t, func(tx store.Tx) error {
			for i := range stable {
				sb, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: name(10 * i)})
				if err != nil {
					return err
				}
				if _, err := tx.InsertService(store.Service{SandboxID: sb.ID, Name: "web"}); err != nil {
					return err
				}
			}
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- churn(ctx, h, 10*stable) }()
		for range 5 {
			sandboxes, services := readPages(t, h)
			for i := range stable {
				if n := sandboxes[name(10*i)]; n != 1 {
					t.Errorf("sandbox %s seen %d times, want once", name(10*i), n)
				}
				if n := services[name(10*i)]; n != 1 {
					t.Errorf("service of %s seen %d times, want once", name(10*i), n)
				}
			}
			for k, n := range sandboxes {
				if n > 1 {
					t.Errorf("sandbox %s seen %d times", k, n)
				}
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// churn inserts and deletes sandboxes between the stable ones until ctx ends.
func churn(ctx context.Context, h *handle, n int) error {
	for i := 0; ctx.Err() == nil; i++ {
		err := h.try(func(tx store.Tx) error {
			s, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: name((i*37)%n + 1 - (i*37)%n%10)})
			if errors.Is(err, store.ErrExists) {
				if s, err = tx.Sandbox("w", name((i*37)%n+1-(i*37)%n%10)); err == nil {
					err = tx.DeleteSandbox(s.ID)
				}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	return nil
}

// readPages reads all pages of both listings and counts each name.
func readPages(t *testing.T, h *handle) (sandboxes, services map[string]int) {
	t.Helper()
	sandboxes, services = map[string]int{}, map[string]int{}
	const size = 7
	for after := (store.Cursor{}); ; {
		page, err := h.Sandboxes(t.Context(), store.SandboxQuery{Workspace: "w", After: after, Limit: size})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			sandboxes[s.Name]++
			after = store.Cursor{Workspace: s.Workspace, Name: s.Name, Set: true}
		}
		if len(page) < size {
			break
		}
	}
	for after := (store.Cursor{}); ; {
		page, err := h.Services(t.Context(), store.ServiceQuery{AllSandboxes: true, After: after, Limit: size})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			services[s.Sandbox]++
			after = store.Cursor{Workspace: s.Workspace, Sandbox: s.Sandbox, Name: s.Name, Set: true}
		}
		if len(page) < size {
			return sandboxes, services
		}
	}
}
