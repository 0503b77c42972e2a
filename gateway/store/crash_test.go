// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// A gateway that is killed in the middle of its writes loses nothing that it
// had answered, leaves nothing half done and never gives a version twice.
func TestKilledInTheMiddle(t *testing.T) {
	e := sqliteEngine(t)
	acknowledged := map[string]bool{}
	var highest uint64
	for round := range 5 {
		c := startChild(t, "writer", e.config.Dir)
		c.note(t, c.expect(t, "wrote "), acknowledged, &highest)
		for range rand.IntN(40) {
			c.note(t, c.expect(t, "wrote "), acknowledged, &highest)
		}
		c.kill()
		for c.lines.Scan() { // what it could still say
			if rest, ok := strings.CutPrefix(c.lines.Text(), "wrote "); ok {
				c.note(t, rest, acknowledged, &highest)
			}
		}
		if err := c.cmd.Wait(); err == nil {
			t.Fatal("the child was to be killed")
		}

		h := e.open(t)
		checkIntegrity(t, e)
		all, err := h.Sandboxes(t.Context(), store.SandboxQuery{})
		if err != nil {
			t.Fatal(err)
		}
		missing := len(acknowledged)
		for _, s := range all {
			if acknowledged[s.ID] {
				missing--
			}
			services, err := h.ServicesOf(t.Context(), s.ID)
			if err != nil || len(services) != 3 {
				t.Errorf("round %d: sandbox %s has %d services, %v: a write was torn", round, s.ID, len(services), err)
			}
		}
		if missing != 0 {
			t.Errorf("round %d: %d of %d acknowledged writes are lost", round, missing, len(acknowledged))
		}
		if next := h.addSandbox(t, store.Sandbox{Workspace: "probe", Name: name(round)}); next.ResourceVersion <= highest {
			t.Errorf("round %d: version %d after %d had been given", round, next.ResourceVersion, highest)
		}
		h.do(t, func(tx store.Tx) error {
			s, err := tx.Sandbox("probe", name(round))
			if err == nil {
				err = tx.DeleteSandbox(s.ID)
			}
			return err
		})
		h.close(t)
	}
	t.Logf("%d acknowledged writes, last version %d", len(acknowledged), highest)
}

// note takes down a line of the writer; the last may be cut short.
func (c *child) note(t *testing.T, line string, acknowledged map[string]bool, highest *uint64) {
	t.Helper()
	var id string
	var version uint64
	if _, err := fmt.Sscanf(line, "%s %d", &id, &version); err != nil || len(id) != 36 {
		return
	}
	acknowledged[id] = true
	*highest = max(*highest, version)
}

func checkIntegrity(t *testing.T, e engine) {
	t.Helper()
	db := e.raw(t)
	var result string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&result); err != nil || result != "ok" {
		t.Errorf("integrity_check: %q, %v", result, err)
	}
	rows, err := db.QueryContext(t.Context(), "PRAGMA foreign_key_check")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if rows.Next() {
		t.Error("foreign_key_check: a service without its sandbox")
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
}
