// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"testing"
	"testing/quick"
	"time"
)

// outcomes of a script: p pass, f fail, i inconclusive; upper case is extra,
// off the timer.
func scripted(c rune) (o Outcome, extra bool) {
	switch c {
	case 'p', 'P':
		o = Pass
	case 'f', 'F':
		o = Fail
	case 'i', 'I':
		o = Inconclusive
	}
	return o, c < 'a'
}

// TestScripts runs the state machine through scripts; want has one letter per
// outcome: u UNKNOWN, h HEALTHY, x UNHEALTHY.
func TestScripts(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"T07 never unhealthy", "pffpff", "hhhhhh"},
		{"T07 at the third fail", "pfff", "hhhx"},
		{"T07 from cold at the third fail", "fff", "uux"},
		{"T07 one fail from cold", "f", "u"},
		{"one pass recovers", "fffp", "uuxh"},
		{"stays unhealthy", "ffffif", "uuxxxx"},
		{"a pass resets the count", "pffpffpfff", "hhhhhhhhhx"},
		{"inconclusive resets the count", "pffiff", "hhhhhh"},
		{"inconclusive is no fail", "piiiiii", "hhhhhhh"},
		{"inconclusive from cold", "iii", "uuu"},
		{"inconclusive from cold resets", "ffifff", "uuuuux"},
		{"extra fails do not count", "pFFFFF", "hhhhhh"},
		{"extra fails do not count from cold", "FFFFFF", "uuuuuu"},
		{"extra fails between do not reset", "pfFfFf", "hhhhhx"},
		{"extra inconclusive does not reset", "pffIf", "hhhhx"},
		{"an extra pass makes healthy", "fffP", "uuxh"},
		{"an extra pass resets the count", "pffPff", "hhhhhh"},
		{"an extra pass from cold", "FP", "uh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h Hysteresis
			got := ""
			for _, c := range tt.script {
				before := h.State()
				changed := h.Step(scripted(c))
				if changed != (h.State() != before) {
					t.Errorf("after %q: changed = %v, from %v to %v", got, changed, before, h.State())
				}
				got += string("uhx"[h.State()])
			}
			if got != tt.want {
				t.Errorf("%s gave %s, want %s", tt.script, got, tt.want)
			}
		})
	}
}

// model judges a whole history anew each time, in the contract's words.
func model(history []rune) (state State, failures int) {
	var counted []Outcome // of the timer, and passes
	for _, c := range history {
		if o, extra := scripted(c); !extra || o == Pass {
			counted = append(counted, o)
		}
	}
	for i, o := range counted {
		switch {
		case o == Pass:
			state = Healthy
		case i >= 2 && o == Fail && counted[i-1] == Fail && counted[i-2] == Fail:
			state = Unhealthy
		}
	}
	for failures < len(counted) && counted[len(counted)-1-failures] == Fail {
		failures++
	}
	return state, failures
}

func TestHysteresisAgreesWithModel(t *testing.T) {
	property := func(raw []byte) bool {
		var h Hysteresis
		var history []rune
		for _, b := range raw {
			c := rune("ppffffffiPFFI"[int(b)%13])
			history = append(history, c)
			h.Step(scripted(c))
			if state, failures := model(history); h.State() != state || h.Failures() != failures {
				t.Logf("%s gave %v, %d fails; want %v, %d", string(history), h.State(), h.Failures(), state, failures)
				return false
			}
		}
		return true
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func TestStepTakesStrangeOutcomesAsInconclusive(t *testing.T) {
	var h Hysteresis
	h.Step(Pass, false)
	h.Step(Fail, false)
	if h.Step(Outcome(77), false) || h.State() != Healthy || h.Failures() != 0 {
		t.Errorf("state %v, %d fails after an unknown outcome", h.State(), h.Failures())
	}
}

func TestJudgeDescribesTheLatestAttempt(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	j := NewJudge(begin)
	if v := j.Verdict(); v != (Verdict{Since: begin}) {
		t.Fatalf("a new judge says %+v", v)
	}
	addr := netip.MustParseAddr("127.0.0.1")
	steps := []struct {
		name    string
		attempt Attempt
		extra   bool
		want    Verdict // without Latest
		changed bool
	}{
		{
			"pass",
			Attempt{Outcome: Pass, Reason: OK, Code: 204, Addr: addr, Start: at(1000), End: at(1002), Latency: 2 * time.Millisecond},
			true,
			Verdict{State: Healthy, Observed: at(1002), Conclusive: at(1002), ConclusiveStart: at(1000), Since: at(1002)},
			true,
		},
		{
			"fail, heard late",
			Attempt{Outcome: Fail, Reason: BadStatus, Code: 500, Start: at(2000), End: at(3200)},
			false,
			Verdict{State: Healthy, Observed: at(3000), Conclusive: at(3000), ConclusiveStart: at(2000), Failures: 1, Since: at(1002)},
			false,
		},
		{
			"extra fail",
			Attempt{Outcome: Fail, Reason: Refused, Start: at(4000), End: at(4001)},
			true,
			Verdict{State: Healthy, Observed: at(4001), Conclusive: at(4001), ConclusiveStart: at(4000), Failures: 1, Since: at(1002)},
			false,
		},
		{
			"inconclusive",
			Attempt{Outcome: Inconclusive, Reason: Late, Start: at(5000), End: at(9000)},
			false,
			Verdict{State: Healthy, Observed: at(6000), Conclusive: at(4001), ConclusiveStart: at(4000), Since: at(1002)},
			false,
		},
	}
	for _, s := range steps {
		s.want.Latest = s.attempt
		v, changed := j.Observe(s.attempt, s.extra)
		if v != s.want || changed != s.changed {
			t.Errorf("%s: %+v, %v\nwant %+v, %v", s.name, v, changed, s.want, s.changed)
		}
		if j.Verdict() != v {
			t.Errorf("%s: Verdict differs from what Observe returned", s.name)
		}
	}
}

func TestStateAt(t *testing.T) {
	at := time.Now()
	healthy := Verdict{State: Healthy, Conclusive: at, Observed: at.Add(time.Minute)}
	for _, tt := range []struct {
		name string
		v    Verdict
		age  time.Duration
		want State
	}{
		{"nothing yet", Verdict{}, 0, Unknown},
		{"nothing conclusive", Verdict{State: Healthy, Observed: at}, 0, Unknown},
		{"fresh", healthy, 0, Healthy},
		{"before the bound", healthy, StaleAfter - 1, Healthy},
		{"at the bound, though tried since", healthy, StaleAfter, Unknown},
		{"unhealthy", Verdict{State: Unhealthy, Conclusive: at}, time.Second, Unhealthy},
		{"unhealthy, stale", Verdict{State: Unhealthy, Conclusive: at}, time.Hour, Unknown},
	} {
		if got := tt.v.StateAt(at.Add(tt.age)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestLapse holds that a verdict which has gone stale comes back by what makes
// one, and not by a fail that would have left it standing in time: nobody is
// told HEALTHY of a service that was last seen to pass before it was UNKNOWN.
func TestLapse(t *testing.T) {
	type step struct {
		after   time.Duration
		asleep  time.Duration
		outcome Outcome
		want    State
		changed bool
	}
	const gap = StaleAfter - time.Millisecond
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"a fail just in time", []step{{0, 0, Pass, Healthy, true}, {gap, 0, Fail, Healthy, false}}},
		{"a fail too late", []step{{0, 0, Pass, Healthy, true}, {gap + time.Millisecond, 0, Fail, Unknown, true}}},
		{"a pass too late", []step{{0, 0, Pass, Healthy, true}, {time.Hour, 0, Pass, Healthy, true}, {Interval, 0, Pass, Healthy, false}}},
		{"asleep", []step{{0, 0, Pass, Healthy, true}, {Interval, 10 * time.Second, Fail, Unknown, true}}},
		{"asleep not for long", []step{{0, 0, Pass, Healthy, true}, {Interval, 10*time.Second - 1, Fail, Healthy, false}}},
		{"asleep twice, with a pass between", []step{{0, 0, Pass, Healthy, true}, {0, 9 * time.Second, Pass, Healthy, false}, {0, 9 * time.Second, Fail, Healthy, false}}},
		{"asleep twice, with nothing between", []step{{0, 0, Pass, Healthy, true}, {0, 9 * time.Second, Inconclusive, Healthy, false}, {0, 9 * time.Second, Fail, Unknown, true}}},
		{"inconclusive for too long", []step{{0, 0, Pass, Healthy, true}, {gap, 0, Inconclusive, Healthy, false}, {time.Millisecond, 0, Inconclusive, Unknown, true}, {0, 0, Fail, Unknown, false}}},
		{"unhealthy", []step{{0, 0, Fail, Unknown, false}, {0, 0, Fail, Unknown, false}, {0, 0, Fail, Unhealthy, true}, {time.Minute, 0, Fail, Unknown, true}, {0, 0, Fail, Unknown, false}, {0, 0, Fail, Unhealthy, true}}},
	} {
		now := time.Now()
		j := NewJudge(now)
		for i, s := range tt.steps {
			now = now.Add(s.after)
			if s.asleep > 0 {
				j.Suspended(s.asleep)
			}
			if i > 0 && now.Sub(j.Verdict().Since) < s.asleep {
				t.Errorf("%s, step %d: the state is said to last for %v", tt.name, i, now.Sub(j.Verdict().Since))
			}
			v, changed := j.Observe(Attempt{Outcome: s.outcome, Start: now, End: now}, false)
			if v.State != s.want || changed != s.changed {
				t.Errorf("%s, step %d: %v, changed %v", tt.name, i, v.State, changed)
			}
		}
	}
}
