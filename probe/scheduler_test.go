// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"slices"
	"testing"
	"time"
)

func TestRounds(t *testing.T) {
	inWorld(t, 2*time.Second, func(w *world) {
		w.target(1, passes)
		w.target(2, passes)
		w.expose(1, 2)
		w.until(13 * time.Second)
		w.wantTimes("attempts", w.attempts[1], 0, 2000, 7000, 12000)
		w.wantTimes("attempts", w.attempts[2], 0, 2000, 7000, 12000)
		w.wantTimes("rounds ended", w.rounds, 2002, 7002, 12002)
		w.wantTimes("late", w.lates, 0, 0, 0)
		if got := w.changes("s1"); got != "2ms HEALTHY " {
			t.Errorf("changes: %s", got)
		}
		if len(w.events) != 8 || w.events[7].changed {
			t.Errorf("%d observations", len(w.events))
		}
	})
}

// TestThreeTimerFails holds T01 and T07 where time passes: quick attempts do
// not count, timer attempts do, whatever kind of failure it is.
func TestThreeTimerFails(t *testing.T) {
	for _, a := range []answer{refuses, fails, silent, {reason: Timeout, takes: AttemptTimeout + 200*time.Millisecond}} {
		inWorld(t, 2500*time.Millisecond, func(w *world) {
			w.target(1, a)
			w.expose(1)
			w.until(12500*time.Millisecond - 1)
			if got := w.changes("s1"); got != "" {
				t.Errorf("%v: changed too early: %s", a.reason, got)
			}
			w.until(12500*time.Millisecond + a.takes)
			if v := w.latest("s1"); v.State != Unhealthy || v.Failures != 3 {
				t.Errorf("%v: %+v", a.reason, v)
			}
			w.target(1, passes)
			w.until(15 * time.Second)
			if v := w.latest("s1"); v.State != Healthy {
				t.Errorf("%v: a quick attempt after UNHEALTHY did not help: %+v", a.reason, v)
			}
			// It has passed: no more quick attempts, three timer fails again.
			w.target(1, a)
			before := len(w.attempts[1])
			w.until(27500*time.Millisecond + a.takes)
			if v := w.latest("s1"); v.State != Unhealthy || len(w.attempts[1]) != before+3 {
				t.Errorf("%v: %+v after %d attempts", a.reason, v, len(w.attempts[1])-before)
			}
		})
	}
}

func TestQuickAttempts(t *testing.T) {
	inWorld(t, 4500*time.Millisecond, func(w *world) {
		w.target(1, refuses)
		w.expose(1)
		w.until(4400 * time.Millisecond)
		// Times 1.5 each, up to a second.
		want := []time.Duration{0, 100, 250, 475, 812500, 1318750, 2078125, 3078125, 4078125}
		for i, got := range w.attempts[1] {
			unit := time.Millisecond
			if want[i] > 10000 {
				unit = time.Microsecond
			}
			if i >= len(want) || got != want[i]*unit {
				t.Errorf("attempt %d at %v", i, got)
			}
		}
		if len(w.attempts[1]) != len(want) {
			t.Errorf("%d attempts", len(w.attempts[1]))
		}
		// A quick attempt finds it soon after it has come up.
		w.until(6800 * time.Millisecond)
		w.target(1, passes)
		w.until(7600 * time.Millisecond)
		if got := w.latest("s1"); got.State != Healthy {
			t.Errorf("%+v", got)
		}
	})
}

// TestQuickAttemptsEnd counts the attempts in the second and in the tenth
// minute, by what the target does.
func TestQuickAttemptsEnd(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answer   answer
		min, max int // a minute
	}{
		{"refused", refuses, 55, 61},
		{"fails", fails, 12, 12},
		{"silent", silent, 12, 12},
		{"no resources", answer{reason: NoResources}, 12, 12},
	} {
		inWorld(t, 0, func(w *world) {
			w.target(1, tt.answer)
			w.expose(1)
			w.until(time.Minute - 1)
			if n := len(w.attempts[1]); n < 25 || n > 70 {
				t.Errorf("%s: %d attempts in the first minute", tt.name, n)
			}
			for minute := range 10 {
				w.until(time.Duration(minute+1)*time.Minute + 2*time.Second - 1)
				before := len(w.attempts[1])
				w.until(time.Duration(minute+2)*time.Minute + 2*time.Second - 1)
				if n := len(w.attempts[1]) - before; n < tt.min || n > tt.max {
					t.Errorf("%s: %d attempts in minute %d", tt.name, n, minute+2)
				}
			}
		})
	}
}

// TestHangingDelayNobody holds T06.
func TestHangingDelayNobody(t *testing.T) {
	for _, tt := range []struct {
		hanging int
		answer  answer
	}{
		{30, silent},
		{30, answer{reason: Timeout, takes: 1300 * time.Millisecond}},
		{MaxServices - 1, silent},
	} {
		inWorld(t, 1700*time.Millisecond, func(w *world) {
			var ports []uint16
			for i := range tt.hanging {
				ports = append(ports, uint16(i+1))
				w.target(uint16(i+1), tt.answer)
			}
			const good = 1000
			w.target(good, passes)
			w.expose(append(ports, good)...)
			w.until(600 * time.Millisecond)
			var oldest time.Duration
			for w.now() < 30*time.Second {
				w.until(w.now() + 50*time.Millisecond)
				v := w.latest("s1000")
				oldest = max(oldest, time.Since(v.Observed))
				if v.State != Healthy {
					t.Fatalf("%v: %+v", w.now(), v)
				}
			}
			if oldest > 6*time.Second {
				t.Errorf("the good one was %v old beside %d hanging ones", oldest, tt.hanging)
			}
			for _, port := range ports {
				if v := w.latest(serviceOn(port).Name); v.State != Unhealthy {
					t.Errorf("hanging one %d: %+v", port, v)
				}
			}
		})
	}
}

func TestBurstUsesFewSlots(t *testing.T) {
	inWorld(t, time.Second, func(w *world) {
		var ports []uint16
		for i := range 100 {
			ports = append(ports, uint16(i+1))
			w.target(uint16(i+1), answer{reason: OK, takes: time.Millisecond})
		}
		w.expose(ports...)
		w.until(10 * time.Second)
		if w.together != slots {
			t.Errorf("%d attempts at one time, want %d", w.together, slots)
		}
		w.wantTimes("rounds ended", w.rounds, 1013, 6013)
	})
}

func TestRoundEndsTwiceIfSomeHang(t *testing.T) {
	inWorld(t, time.Second, func(w *world) {
		w.target(1, passes)
		w.expose(1)
		w.until(900 * time.Millisecond)
		w.target(1, silent)
		w.until(5 * time.Second)
		w.wantTimes("rounds ended", w.rounds, 1600, 2000)
		w.until(9 * time.Second)
		w.wantTimes("rounds ended", w.rounds, 1600, 2000, 6600, 7000)
	})
}

func TestRoundsWithoutServices(t *testing.T) {
	inWorld(t, time.Second, func(w *world) {
		w.until(2 * time.Second)
		w.target(1, passes)
		w.expose(1)
		w.until(7 * time.Second)
		w.expose()
		w.until(12 * time.Second)
		w.scheduler.ProbeNow()
		w.until(13 * time.Second)
		w.wantTimes("rounds ended", w.rounds, 1000, 6002, 11000, 12000)
		w.wantTimes("attempts", w.attempts[1], 2000, 6000)
	})
}

func TestReconfiguration(t *testing.T) {
	inWorld(t, 4*time.Second, func(w *world) {
		w.target(1, passes)
		w.target(2, silent)
		w.target(3, passes)
		w.expose(1, 3)
		w.until(5 * time.Second)

		// Another port: UNKNOWN again, an attempt at once, nothing of the old.
		changed := serviceOn(1)
		changed.Revision, changed.Target.Port = 100, 2
		w.scheduler.SetServices([]Service{changed, serviceOn(3)})
		w.until(5500 * time.Millisecond)
		w.wantTimes("attempts of the new port", w.attempts[2], 5000)
		before := len(w.events)

		// And back while that one hangs: it is cancelled, its result dropped.
		back := serviceOn(1)
		back.Revision = 101
		w.scheduler.SetServices([]Service{back, serviceOn(3)})
		w.until(5510 * time.Millisecond)
		w.wantTimes("attempts", w.attempts[1], 0, 4000, 5500)
		if got := w.events[before:]; len(got) != 1 || got[0].service != back || !got[0].changed ||
			got[0].verdict.State != Healthy || got[0].verdict.Since.Sub(w.start) != 5502*time.Millisecond {
			t.Errorf("observed %+v", got)
		}
		if w.cancelled != 1 {
			t.Errorf("%d attempts cancelled", w.cancelled)
		}
		// The one that did not change was left alone.
		w.until(8 * time.Second)
		w.wantTimes("attempts of the other", w.attempts[3], 0, 4000)
	})
}

// TestReconfigurationDuringADeafAttempt: the attempts of one service do not
// overlap even if one cannot be ended, and others do not wait for it.
func TestReconfigurationDuringADeafAttempt(t *testing.T) {
	inWorld(t, 3*time.Second, func(w *world) {
		w.target(1, answer{reason: OK, takes: AttemptTimeout, deaf: true})
		w.target(2, passes)
		w.expose(1)
		w.until(100 * time.Millisecond)
		w.expose()
		again := serviceOn(1)
		again.Revision = 7
		w.scheduler.SetServices([]Service{again, serviceOn(2)})
		w.until(2500 * time.Millisecond)
		w.wantTimes("attempts", w.attempts[1], 0, 1000)
		w.wantTimes("attempts of the other", w.attempts[2], 100)
		if got := w.changes("s1"); got != "2s HEALTHY " {
			t.Errorf("changes: %s", got)
		}
	})
}

func TestSameListChangesNothing(t *testing.T) {
	inWorld(t, 3*time.Second, func(w *world) {
		w.target(1, passes)
		w.expose(1)
		w.until(time.Second)
		list := []Service{serviceOn(1), serviceOn(1)} // the name twice counts once
		list[1].Revision = 9
		w.scheduler.SetServices(list)
		list[0].Revision = 8 // the caller's slice is the caller's
		w.until(4 * time.Second)
		w.wantTimes("attempts", w.attempts[1], 0, 3000)
		if n := len(w.events); n != 2 || w.events[1].service != serviceOn(1) {
			t.Errorf("observed %+v", w.events)
		}
	})
}

func TestProbeNow(t *testing.T) {
	inWorld(t, 3*time.Second, func(w *world) {
		w.target(1, passes)
		w.expose(1)
		w.until(time.Second)
		w.onResult = func(Service, Attempt) {
			if w.now() < 1010*time.Millisecond {
				<-time.After(100 * time.Millisecond) // the loop is busy
			}
		}
		w.scheduler.ProbeNow()
		w.until(1050 * time.Millisecond)
		for range 10 {
			w.scheduler.ProbeNow() // those are one
		}
		w.until(2 * time.Second)
		w.wantTimes("attempts", w.attempts[1], 0, 1000, 1102)
		w.wantTimes("rounds ended", w.rounds, 1102, 1104)

		// Extra fails do not count, and do not reset the count.
		w.target(1, fails)
		w.until(3500 * time.Millisecond)
		for range 5 {
			w.scheduler.ProbeNow()
			w.until(w.now() + 100*time.Millisecond)
		}
		if v := w.latest("s1"); v.State != Healthy || v.Failures != 1 || v.Latest.Reason != BadStatus {
			t.Errorf("%+v", v)
		}
		w.until(13*time.Second + 10*time.Millisecond)
		if got := w.changes("s1"); got != "2ms HEALTHY 13.002s UNHEALTHY " {
			t.Errorf("changes: %s", got)
		}
	})
}

// TestProbeNowSkipsWhatIsInFlight: and ends at once if that is everything.
func TestProbeNowSkipsWhatIsInFlight(t *testing.T) {
	inWorld(t, 10*time.Second, func(w *world) {
		w.target(1, silent)
		w.expose(1)
		w.until(500 * time.Millisecond)
		w.scheduler.ProbeNow()
		w.until(900 * time.Millisecond)
		w.wantTimes("attempts", w.attempts[1], 0)
		w.wantTimes("rounds ended", w.rounds, 500)
	})
}

// TestMissedRounds holds the second half of T12: a loop that stood still is
// late once, and catches up with nothing.
func TestMissedRounds(t *testing.T) {
	inWorld(t, time.Second, func(w *world) {
		w.target(1, passes)
		w.onResult = func(Service, Attempt) {
			if w.now() > 11*time.Second && w.now() < 12*time.Second {
				<-time.After(63*time.Second + 500*time.Millisecond)
			}
		}
		w.expose(1)
		w.until(90 * time.Second)
		w.wantTimes("attempts", w.attempts[1], 0, 1000, 6000, 11000, 74502, 81000, 86000)
		w.wantTimes("late", w.lates, 0, 0, 0, 58502, 0, 0)
		w.wantTimes("a turn late", []time.Duration{w.turnLate}, 58502)
	})
}

func TestSlowAttemptIsNotRepeated(t *testing.T) {
	inWorld(t, time.Second, func(w *world) {
		w.target(1, answer{reason: Late, takes: 12 * time.Second})
		w.expose(1)
		w.until(11 * time.Second)
		w.target(1, passes)
		w.until(17 * time.Second)
		// world.attempt fails the test if two run side by side.
		if w.attempts[1][0] != 0 || w.attempts[1][1] < 12*time.Second {
			t.Errorf("attempts at %v", w.attempts[1])
		}
		w.wantTimes("rounds ended", w.rounds, 1000, 6000, 11000, 16002)
	})
}

func TestPanickingAttemptIsInconclusive(t *testing.T) {
	inWorld(t, time.Second, func(w *world) {
		w.target(1, answer{panics: true})
		w.target(2, passes)
		w.expose(1, 2)
		w.until(20 * time.Second)
		if v := w.latest("s1"); v.State != Unknown || v.Latest.Outcome != Inconclusive || v.Latest.Reason != Internal {
			t.Errorf("%+v", v)
		}
		if v := w.latest("s2"); v.State != Healthy {
			t.Errorf("the other: %+v", v)
		}
	})
}

func TestRunWaitsForItsAttempts(t *testing.T) {
	inWorld(t, time.Second, func(w *world) {
		w.target(1, answer{reason: OK, takes: 700 * time.Millisecond, deaf: true})
		w.target(2, silent)
		w.expose(1, 2)
		w.until(100 * time.Millisecond)
		w.stop()
		if w.now() != 700*time.Millisecond || w.cancelled != 1 || len(w.events) != 0 {
			t.Errorf("ended at %v, %d cancelled, %d observations", w.now(), w.cancelled, len(w.events))
		}
		if !slices.Equal(w.attempts[1], []time.Duration{0}) {
			t.Errorf("attempts %v", w.attempts[1])
		}
	})
}
