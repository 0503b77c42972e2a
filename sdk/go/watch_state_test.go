// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func watched(number uint32, name string, state openshellv1.ServiceHealthState) *sandboxv1.WatchedService {
	return &sandboxv1.WatchedService{Number: number, Service: &openshellv1.ServiceEndpointResponse{
		Endpoint: &openshellv1.ServiceEndpoint{Metadata: &datamodelv1.ObjectMeta{Id: name}, Sandbox: "web", Name: name},
		Health:   &openshellv1.ServiceHealth{State: state},
	}}
}

func names(list []WatchedService) string {
	var b []string
	for _, s := range list {
		b = append(b, s.Service.GetEndpoint().GetName()+" "+s.Health().State.String())
	}
	return strings.Join(b, ", ")
}

// A stream's messages, and what they amount to after each.
func TestWatchState(t *testing.T) {
	var w watchState
	age := uint32(1500)
	aged := watched(1, "a", 2)
	aged.AgeMs = &age
	for i, step := range []struct {
		begin bool
		m     *sandboxv1.WatchServicesResponse
		want  string
		err   error
	}{
		{begin: true, m: &sandboxv1.WatchServicesResponse{Sequence: 1, Services: []*sandboxv1.WatchedService{aged}}, want: ""},
		{m: &sandboxv1.WatchServicesResponse{Sequence: 2, Complete: true, Services: []*sandboxv1.WatchedService{watched(2, "b", 3)}}, want: "a healthy, b unhealthy"},
		{m: &sandboxv1.WatchServicesResponse{Sequence: 3, Complete: true, Removed: []uint32{2, 77}, Services: []*sandboxv1.WatchedService{watched(3, "b", 2)}}, want: "a healthy, b healthy"},
		{m: &sandboxv1.WatchServicesResponse{Sequence: 4, Complete: true, Ages: []*sandboxv1.ServiceAge{{Number: 1}, {Number: 2}, {Number: 0}}}, want: "a healthy, b healthy"},
		{m: &sandboxv1.WatchServicesResponse{Sequence: 5, Complete: true, Services: []*sandboxv1.WatchedService{{Number: 9}, watched(0, "x", 2), nil}}, want: "a healthy, b healthy"},
		{m: &sandboxv1.WatchServicesResponse{Sequence: 7, Complete: true}, want: "a healthy, b healthy", err: errSequence},
		// Another stream: the old state stands until the new one is complete.
		{begin: true, m: &sandboxv1.WatchServicesResponse{Sequence: 1, Services: []*sandboxv1.WatchedService{watched(1, "c", 0)}}, want: "a healthy, b healthy"},
		{m: &sandboxv1.WatchServicesResponse{Sequence: 2, Complete: true}, want: "c unknown"},
		{begin: true, m: &sandboxv1.WatchServicesResponse{Sequence: 2, Complete: true}, want: "c unknown", err: errSequence},
		{begin: true, m: &sandboxv1.WatchServicesResponse{Sequence: 1, Complete: true}, want: ""},
	} {
		now := noon.Add(time.Duration(i) * time.Second)
		if step.begin {
			w.begin()
		}
		if err := w.take(step.m, now); !errors.Is(err, step.err) {
			t.Errorf("message %d: %v, want %v", i, err, step.err)
		}
		if got := names(w.at(now)); got != step.want {
			t.Errorf("after message %d: %q, want %q", i, got, step.want)
		}
		switch i {
		case 1: // the age is that of the message that it came with
			if got := w.at(now)[0].Checked; got != noon.Add(-1500*time.Millisecond) {
				t.Errorf("checked at %v", got)
			}
		case 3:
			if got := w.at(now)[0].Checked; got != now {
				t.Errorf("checked at %v after a heartbeat", got)
			}
		}
	}
}

// Messages of a state that is not complete say nothing of the one before, so
// they do not keep it fresh.
func TestIncompleteStateRefreshesNothing(t *testing.T) {
	var w watchState
	w.begin()
	take := func(at time.Duration, m *sandboxv1.WatchServicesResponse) {
		if err := w.take(m, noon.Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	take(0, &sandboxv1.WatchServicesResponse{Sequence: 1, Complete: true, Services: []*sandboxv1.WatchedService{watched(1, "a", 2)}})
	w.begin()
	take(10*time.Second, &sandboxv1.WatchServicesResponse{Sequence: 1, Services: []*sandboxv1.WatchedService{watched(1, "a", 2)}})
	if got := names(w.at(noon.Add(WatchTimeout - 1))); got != "a healthy" {
		t.Errorf("before the time is over: %s", got)
	}
	if got := names(w.at(noon.Add(WatchTimeout))); got != "a unknown" {
		t.Errorf("after it: %s", got)
	}
}

// A stale service is unknown in whatever way it is read, and loses nothing else
// that is still true.
func TestStale(t *testing.T) {
	s := WatchedService{Service: watched(1, "a", 2).GetService(), Phase: 2, Checked: noon}
	s.Service.Url, s.Service.Endpoint.ReadinessCheck = "http://a/", &openshellv1.HttpReadinessCheck{Path: "/"}
	got := s.stale()
	if h := got.Health(); h.State != HealthUnknown || h.Reason != ReasonWatchStale || !h.Ready || h.Message == "" {
		t.Errorf("health %+v", h)
	}
	if got.Service.GetUrl() != "http://a/" || got.Phase != 2 || got.Checked != noon || s.Health().State != HealthHealthy {
		t.Errorf("%+v of %+v", got, s)
	}
	if got.same(s) || !got.same(got.stale()) {
		t.Error("a stale service is no news, or always")
	}
}

// Whoever applies the differences holds what the last list holds.
func TestDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() []WatchedService {
		var list []WatchedService
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if r.IntN(2) == 0 {
				s := WatchedService{Service: watched(1, name, openshellv1.ServiceHealthState(r.IntN(4))).GetService()}
				s.Service.Endpoint.Metadata.Id += fmt.Sprint(r.IntN(2))
				list = append(list, s)
			}
		}
		slices.SortFunc(list, compareWatched)
		return list
	}
	held := map[watchKey]WatchedService{}
	var before []WatchedService
	for range 2000 {
		after := random()
		changed, removed := difference(before, after)
		for _, s := range removed {
			if _, ok := held[s.key()]; !ok {
				t.Fatalf("%v is removed and was not there", s.key())
			}
			delete(held, s.key())
		}
		for _, s := range changed {
			if old, ok := held[s.key()]; ok && old.same(s) {
				t.Fatalf("%v is no change", s.key())
			}
			held[s.key()] = s
		}
		if len(held) != len(after) {
			t.Fatalf("%d are held, want %d", len(held), len(after))
		}
		for _, s := range after {
			if !held[s.key()].same(s) {
				t.Fatalf("%v is held as %v, want %v", s.key(), held[s.key()], s)
			}
		}
		before = after
	}
}

func TestRedialAfter(t *testing.T) {
	for n := range 40 {
		want := min(firstRedial<<min(n, 10), lastRedial)
		for range 100 {
			if d := redialAfter(n); d < want/2 || d >= want {
				t.Fatalf("pause %d is %v, want one in [%v, %v)", n, d, want/2, want)
			}
		}
	}
}
