// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import "time"

const (
	quickMin = 100 * time.Millisecond
	quickMax = time.Second
	// quickFor is how long after its configuration a service that answers but
	// does not pass is asked more often than the timer does.
	quickFor = time.Minute
	// quickMargin is kept between the expected end of a quick attempt and the
	// next round.
	quickMargin = 50 * time.Millisecond
)

// quickDelay returns how long after an attempt the next quick one follows, if
// one does: for a service that has not passed in age, the time since its
// configuration, after made earlier quick attempts. latest is the reason of
// the attempt that has just ended.
//
// A refused connect disturbs nobody, so it is repeated for as long as it is
// refused; whoever answers is spared after quickFor.
func quickDelay(passed bool, made int, age time.Duration, latest Reason) (time.Duration, bool) {
	switch {
	case passed:
		return 0, false
	case age >= quickFor:
		return quickMax, latest == Refused
	}
	delay := quickMin
	for i := 0; i < made && delay < quickMax; i++ {
		delay += delay / 2
	}
	return min(delay, quickMax), true
}

// quickFits reports whether a quick attempt at at, which is expected to take
// as long as the latest one, ends before the next round, so that the round
// finds the service free and counts. An attempt that takes long may wait for a
// slot first, since others then take long too: that is the half on top.
func quickFits(at time.Time, latency time.Duration, nextRound time.Time) bool {
	return at.Add(latency + latency/2 + quickMargin).Before(nextRound)
}

// nextRound returns when the round after the one that was due at due, and
// begins at now, is due: on the same grid, and at least half an interval away,
// so that no two rounds count as if they were one interval apart when they are
// not. Rounds that were missed are gone.
func nextRound(due, now time.Time) time.Time {
	earliest := now.Add(Interval / 2)
	behind := max(earliest.Sub(due), 0)
	steps := (behind + Interval - 1) / Interval
	return due.Add(max(steps, 1) * Interval)
}
