// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func glyphs(states []sandbox.HealthState) string {
	var b strings.Builder
	for _, s := range states {
		b.WriteString(map[sandbox.HealthState]string{0: "?", 1: "+", 2: "-"}[s])
	}
	return b.String()
}

func moved(seconds int, to openshellv1.ServiceHealthState) *sandboxv1.ServiceTransition {
	return &sandboxv1.ServiceTransition{Time: ago(time.Duration(100-seconds) * time.Second), ToState: to}
}

func TestStrip(t *testing.T) {
	since := today.Add(-100 * time.Second)
	for want, list := range map[string][]*sandboxv1.ServiceTransition{
		"??????????": {moved(0, 1)},
		"?+++++++++": {moved(0, 1), moved(10, 2)},
		"+++++-----": {moved(0, 2), moved(50, 3)},
		"++-+++++++": {moved(0, 2), moved(25, 3), moved(26, 2)},               // a moment of the worst shows
		"++?+++++++": {moved(0, 2), moved(25, 1), moved(26, 2)},               // so does one of not knowing
		"+++-++++++": {moved(0, 2), moved(31, 1), moved(35, 3), moved(39, 2)}, // the worst of both
		"+++++++++-": {moved(0, 2), moved(100, 3)},
	} {
		if got := glyphs(strip(list, since, today, 10)); got != want {
			t.Errorf("%v: %s, want %s", list, got, want)
		}
	}
	if got := glyphs(strip([]*sandboxv1.ServiceTransition{{Time: ago(0), ToState: 2}}, today, today, 5)); len(got) != 5 || got[0] != '+' {
		t.Errorf("of no time: %s", got)
	}
}

// Against a look at each hundredth of a part.
func TestStripAgainstSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	since := today.Add(-100 * time.Second)
	for range 300 {
		list := []*sandboxv1.ServiceTransition{moved(0, openshellv1.ServiceHealthState(1+r.IntN(3)))}
		for at := 1; at < 100; at += 1 + r.IntN(30) {
			list = append(list, moved(at, openshellv1.ServiceHealthState(1+r.IntN(3))))
		}
		got := strip(list, since, today, 20)
		for part := range 20 {
			want := sandbox.HealthHealthy
			for i := range 100 {
				at := since.Add(5*time.Second*time.Duration(part) + time.Duration(i)*50*time.Millisecond)
				state := sandbox.HealthUnknown
				for _, tr := range list {
					if !tr.GetTime().AsTime().After(at) {
						state = stateOf(tr, false).State
					}
				}
				if worse(state, want) {
					want = state
				}
			}
			if got[part] != want {
				t.Fatalf("part %d of %v is %v, want %v", part, list, got[part], want)
			}
		}
	}
}
