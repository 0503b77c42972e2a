// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestRandomWorlds changes lists, targets and asks for extra rounds, by chance.
// The world itself watches that the attempts of one service never overlap and
// that nothing is observed of a service that is gone; here it is watched that
// nothing that stays grows old, and that rounds go on.
func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(5) {
		chance := rand.New(rand.NewPCG(seed, 1))
		phase := time.Duration(chance.Int64N(int64(Interval)))
		inWorld(t, phase, func(w *world) {
			answers := []answer{passes, passes, refuses, fails, silent, {reason: OK, takes: 900 * time.Millisecond, deaf: true}, {panics: true}}
			since := map[Service]time.Duration{}
			for w.now() < 2*time.Minute {
				changeWorld(w, chance, answers)
				w.until(w.now() + time.Duration(chance.Int64N(int64(4*time.Second))))
				checkAges(t, w, since)
			}
			if got, least := len(w.rounds), int((w.now()-phase)/Interval); got < least {
				t.Errorf("seed %d: %d rounds ended of %d", seed, got, least)
			}
		})
	}
}

// changeWorld does one of the things that may happen.
func changeWorld(w *world, chance *rand.Rand, answers []answer) {
	switch chance.IntN(4) {
	case 0:
		var list []Service
		for name := range uint16(40) {
			if chance.IntN(8) == 0 {
				continue
			}
			s := serviceOn(1000 + name)
			s.Name = serviceOn(name).Name
			if chance.IntN(16) == 0 {
				s.Target.Port += 100 * uint16(1+chance.IntN(5))
				s.Revision = uint64(s.Target.Port)
			}
			list = append(list, s)
		}
		w.scheduler.SetServices(list)
	case 1:
		w.scheduler.ProbeNow()
	default:
		for range 1 + chance.IntN(20) {
			w.target(1000+uint16(chance.IntN(600)), answers[chance.IntN(len(answers))])
		}
	}
}

// checkAges fails if a service of the list was not observed for longer than a
// round, its share of slots and a hanging attempt take.
func checkAges(t *testing.T, w *world, since map[Service]time.Duration) {
	t.Helper()
	if len(w.lists) == 0 {
		return
	}
	present := map[Service]time.Duration{}
	for _, s := range w.lists[len(w.lists)-1] {
		at, known := since[s]
		if !known {
			at = w.now()
		}
		present[s] = at
	}
	clear(since)
	for s, at := range present {
		since[s] = at
	}
	for s, at := range present {
		if age := w.now() - max(at, w.observed[s]); age > Interval+patience+AttemptTimeout {
			t.Errorf("%v: %s was not observed for %v", w.now(), s.Name, age)
		}
	}
}
