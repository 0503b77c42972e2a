// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// t0 is some instant; none of what is pure here asks a clock.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	sandbox  = "sandbox-1"
	service  = "service-1"
	instance = "instance-1"
	revision = 7
	session  = 41
)

// fresh is a good observation of service at the instant at.
func fresh(at time.Time) Observation {
	return Observation{
		ServiceID: service, Instance: instance, Revision: revision,
		State: probe.Healthy, Outcome: probe.Pass, Reason: probe.OK, Code: 200,
		Latest: at, Conclusive: at, Since: at,
	}
}

// only returns the set of some ids.
func only(ids ...string) map[string]bool {
	set := make(map[string]bool)
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// connected returns a cache with one live session that has reported obs.
func connected(t testing.TB, obs ...Observation) *Cache {
	t.Helper()
	c := NewCache()
	c.Connected(sandbox, session, 0, instance)
	if !c.Reported(sandbox, session, 1, obs, only(service)) {
		t.Fatal("the owner's first report was refused")
	}
	return c
}
