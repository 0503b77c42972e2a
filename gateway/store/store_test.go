// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestOpenInsertRead(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{Dir: t.TempDir(), Logger: testkit.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, _, err = s.Mutate(t.Context(), store.Request{}, func(tx store.Tx) ([]byte, error) {
		sb, err := tx.InsertSandbox(store.Sandbox{Workspace: "default", Name: "a", Labels: map[string]string{"k": "v"}})
		if err != nil {
			return nil, err
		}
		_, err = tx.InsertService(store.Service{SandboxID: sb.ID, Name: "web", Port: 8080, HasCheck: true})
		return nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	svc, err := s.Service(t.Context(), "default", "a", "web")
	if err != nil || svc.Path != "/" || svc.Revision != 2 {
		t.Fatalf("service = %+v, %v", svc, err)
	}
	all, err := s.Sandboxes(t.Context(), store.SandboxQuery{Labels: map[string]string{"k": "v"}})
	if err != nil || len(all) != 1 {
		t.Fatalf("sandboxes = %+v, %v", all, err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}
