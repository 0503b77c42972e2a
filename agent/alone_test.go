// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// A reload that leaves a service as it is leaves its revision, and with it the
// verdict and the counters; a changed one is a new service.
func TestRevisionsFollowTheConfiguration(t *testing.T) {
	service := func(name string, port uint16) probe.Service {
		return probe.Service{Name: name, Target: probe.Target{Port: port}}
	}
	var a alone
	seen := make(map[uint64]probe.Service)
	revise := func(services ...probe.Service) []uint64 {
		var revisions []uint64
		for i, s := range a.revise(services) {
			if s.Name != services[i].Name || s.Target != services[i].Target {
				t.Fatalf("the order has changed: %v", s)
			}
			was, known := seen[s.Revision]
			if known && (was.Name != s.Name || was.Target != s.Target) {
				t.Errorf("revision %d is of %v and of %v", s.Revision, was, s)
			}
			seen[s.Revision] = s
			revisions = append(revisions, s.Revision)
		}
		return revisions
	}
	first := revise(service("a", 1), service("b", 2))
	second := revise(service("new", 3), service("b", 2), service("a", 1))
	if second[2] != first[0] || second[1] != first[1] {
		t.Errorf("unchanged services have other revisions: %v, then %v", first, second)
	}
	third := revise(service("a", 9), service("b", 2))
	if third[0] == first[0] || third[1] != first[1] {
		t.Errorf("after a change of a: %v, was %v", third, first)
	}
	if fourth := revise(service("a", 1)); fourth[0] == first[0] {
		t.Error("a service that was away is the old one again")
	}
}
