// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Rings against slices: each service keeps its latest, all together no more
// than the limit and one for each service.
func TestRings(t *testing.T) {
	const limit = 100
	r := rand.New(rand.NewPCG(5, 6))
	h := newHistory(noon)
	h.limit = limit
	model := map[string][]time.Duration{}
	for i := range 20000 {
		id := fmt.Sprint(r.IntN(6))
		if r.IntN(200) == 0 {
			h.forget(id)
			delete(model, id)
			continue
		}
		at := time.Duration(i)
		h.add(id, transition{at: at}, at)
		model[id] = append(model[id], at)
		got := h.read(id)
		kept := model[id][len(model[id])-len(got.list):]
		for j, tr := range got.list {
			if tr.at != kept[j] {
				t.Fatalf("kept %v, want the latest %v", got.list, kept)
			}
		}
		if len(got.list) == 0 || len(got.list) > MaxTransitions || got.dropped+uint64(len(got.list)) != uint64(len(model[id])) || got.since != model[id][0] {
			t.Fatalf("%d kept since %v, %d dropped, of %d", len(got.list), got.since, got.dropped, len(model[id]))
		}
		sum := 0
		for _, ring := range h.rings {
			sum += len(ring.list)
		}
		if sum != h.kept || h.kept > limit+len(h.rings) {
			t.Fatalf("%d are kept, %d counted", sum, h.kept)
		}
	}
	if got := h.read("never"); len(got.list) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// What was noticed out of order does not go back in time.
func TestTransitionsDoNotGoBack(t *testing.T) {
	h := newHistory(noon)
	for _, at := range []time.Duration{5, 9, 7, 8, 12} {
		h.add("id", transition{at: at}, at)
	}
	var got []time.Duration
	for _, tr := range h.read("id").list {
		got = append(got, tr.at)
	}
	if !slices.Equal(got, []time.Duration{5, 9, 9, 9, 12}) {
		t.Error(got)
	}
}

func TestCauses(t *testing.T) {
	never := verdict{}
	given := func(r health.Reason) verdict { return verdict{given: true, reason: r} }
	good := given(health.NoReason)
	for _, tt := range []struct {
		from, to verdict
		started  bool
		want     sandboxv1.TransitionCause
	}{
		{never, good, true, sandboxv1.TransitionCause_TRANSITION_CAUSE_GATEWAY_STARTED},
		{never, given(health.NotObserved), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_CONFIGURATION},
		{good, given(health.ConfigurationChanged), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_CONFIGURATION},
		{given(health.NotObserved), good, false, sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT},
		{good, given(health.Inconclusive), true, sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT},
		{given(health.Stale), good, false, sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT},
		{good, given(health.SupervisorDisconnected), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION},
		{given(health.SupervisorDisconnected), good, false, sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION},
		{good, given(health.RuntimeReplaced), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION},
		{given(health.SandboxNotReady), given(health.NotObserved), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION},
		{good, given(health.SandboxStopped), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_LIFECYCLE},
		{given(health.SandboxStopped), given(health.SandboxNotReady), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_LIFECYCLE},
		{good, given(health.Stale), false, sandboxv1.TransitionCause_TRANSITION_CAUSE_AGE},
	} {
		if got := causeOf(tt.from, tt.to, tt.started); got != tt.want {
			t.Errorf("%v to %v: %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

// transitions reads a history as "seconds FROM>TO Reason Cause".
func (w *world) transitions(sandbox, name string) []string {
	w.t.Helper()
	r, err := w.ListServiceTransitions(w.t.Context(), &sandboxv1.ListServiceTransitionsRequest{Sandbox: sandbox, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	list := []string{}
	for i, tr := range r.GetTransitions() {
		if i > 0 && (tr.GetFromState() != r.GetTransitions()[i-1].GetToState() || tr.GetFromReason() != r.GetTransitions()[i-1].GetToReason()) {
			w.t.Errorf("transition %d does not begin where %d has ended", i, i-1)
		}
		cause := strings.TrimPrefix(tr.GetCause().String(), "TRANSITION_CAUSE_")
		list = append(list, fmt.Sprintf("%v %s>%s %s %s", tr.GetTime().AsTime().Sub(w.cfg.Started.UTC()), stateWord(tr.GetFromState()), stateWord(tr.GetToState()), tr.GetToReason(), cause))
	}
	if h := r.GetService().GetHealth(); len(r.GetTransitions()) > 0 {
		if last := r.GetTransitions()[len(r.GetTransitions())-1]; last.GetToState() != h.GetState() || last.GetToReason() != h.GetReason() {
			w.t.Errorf("the history ends with %v, and the service is %v", last, h)
		}
	}
	return list
}

// A service's life as its history tells it, with nobody watching.
func TestTransitions(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.put("old", nil)
		w.expose("old", "")
		w.run()
		testkit.Advance(time.Second)
		w.put("web", func(s *store.Sandbox) { s.Connected = false })
		w.expose("web", "")
		testkit.Advance(time.Second)
		w.connect("web", "a")
		testkit.Advance(time.Second)
		w.report("web", probe.Healthy, probe.OK)
		testkit.Advance(time.Second)
		w.report("web", probe.Healthy, probe.OK)
		testkit.Advance(time.Second)
		w.report("web", probe.Unhealthy, probe.BadStatus)
		testkit.Advance(time.Minute)
		w.put("web", func(s *store.Sandbox) { s.Lifecycle = store.Stopped })
		testkit.Wait()
		want := []string{
			"1s UNSPECIFIED>UNKNOWN SandboxNotReady CONFIGURATION",
			"2s UNKNOWN>UNKNOWN NotObserved SESSION",
			"3s UNKNOWN>HEALTHY OK REPORT",
			"5s HEALTHY>UNHEALTHY BadStatus REPORT",
			"20s UNHEALTHY>UNKNOWN Stale AGE",
			"1m5s UNKNOWN>UNKNOWN SandboxStopped LIFECYCLE",
		}
		if got := w.transitions("web", ""); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := w.transitions("old", ""); !slices.Equal(got, []string{"0s UNSPECIFIED>UNKNOWN SupervisorDisconnected GATEWAY_STARTED"}) {
			t.Errorf("%q", got)
		}
		// A new service has a new history.
		w.drop("web")
		testkit.Advance(time.Second)
		w.put("web", nil)
		w.expose("web", "")
		if got := w.transitions("web", ""); len(got) != 1 || !strings.Contains(got[0], "1m6s UNSPECIFIED>") {
			t.Errorf("%q", got)
		}
		r, err := w.ListServiceTransitions(t.Context(), &sandboxv1.ListServiceTransitionsRequest{Sandbox: "web"})
		if err != nil || r.GetRecordedSince().AsTime() != r.GetReadTime().AsTime() || r.GetDropped() != 0 {
			t.Errorf("%v, %v", r, err)
		}
	})
}

// Whatever nobody has noticed a read notices, at the instant at which it was.
func TestReadNoticesAge(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		testkit.Wait()
		w.end()
		testkit.Advance(time.Hour)
		if got := w.transitions("web", ""); !strings.HasPrefix(got[len(got)-1], "15s HEALTHY>UNKNOWN Stale AGE") {
			t.Errorf("%q", got)
		}
	})
}

// A late report that makes a stale service healthy leaves both changes.
func TestAgeBeforeRecovery(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		f := w.watch(all())
		f.news()
		<-time.After(15*time.Second + slack/2) // before anybody's alarm
		w.report("web", probe.Healthy, probe.OK)
		testkit.Wait()
		got := w.transitions("web", "")
		if len(got) < 2 || !strings.HasPrefix(got[len(got)-2], "15s HEALTHY>UNKNOWN Stale AGE") || !strings.Contains(got[len(got)-1], "UNKNOWN>HEALTHY OK REPORT") {
			t.Errorf("%q", got)
		}
		// The watch has seen none of it, or both.
		testkit.Advance(time.Second)
		if held, _ := f.holds(); !slices.Equal(held, []string{"web/ HEALTHY OK"}) {
			t.Errorf("the watch holds %q", held)
		}
	})
}

func TestTransitionsRefusals(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		for name, tt := range map[string]struct {
			r    *sandboxv1.ListServiceTransitionsRequest
			code codes.Code
		}{
			"no name":         {&sandboxv1.ListServiceTransitionsRequest{}, codes.InvalidArgument},
			"a bad name":      {&sandboxv1.ListServiceTransitionsRequest{Sandbox: "web", Name: "-"}, codes.InvalidArgument},
			"no such sandbox": {&sandboxv1.ListServiceTransitionsRequest{Sandbox: "none"}, codes.NotFound},
			"no such service": {&sandboxv1.ListServiceTransitionsRequest{Sandbox: "web", Name: "none"}, codes.NotFound},
		} {
			if _, err := w.ListServiceTransitions(t.Context(), tt.r); status.Code(err) != tt.code {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
