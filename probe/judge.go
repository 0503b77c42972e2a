// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import "time"

// State is the judgement of a sequence of attempts.
type State uint8

// The states. Their numbers are those of supervisor.v1.State.
const (
	Unknown   State = 0
	Healthy   State = 1
	Unhealthy State = 2
)

// String returns "UNKNOWN", "HEALTHY" or "UNHEALTHY"; any other number is
// unknown.
func (s State) String() string {
	switch s {
	case Healthy:
		return "HEALTHY"
	case Unhealthy:
		return "UNHEALTHY"
	}
	return "UNKNOWN"
}

// Hysteresis is the state machine of the contract: Unknown at first, Healthy
// at the first pass, Unhealthy at the third fail in a row. The zero Hysteresis
// is ready for use. It is pure; its owner serialises the calls.
type Hysteresis struct {
	state    State
	failures int
}

// State returns the present state.
func (h *Hysteresis) State() State { return h.state }

// Failures returns how many fails in a row have counted.
func (h *Hysteresis) Failures() int { return h.failures }

// Step takes one outcome and reports whether the state changed. An extra
// attempt, one made off the timer, can only make Healthy. An inconclusive one,
// and any outcome that is no pass and no fail, begins the count again.
func (h *Hysteresis) Step(o Outcome, extra bool) (changed bool) {
	before := h.state
	switch {
	case o == Pass:
		h.state, h.failures = Healthy, 0
	case extra:
	case o == Fail:
		h.failures++
		if h.failures >= FailThreshold {
			h.state = Unhealthy
		}
	default:
		h.failures = 0
	}
	return h.state != before
}

// Judge is the hysteresis of one service in one configuration, together with a
// description of the latest attempt. It is pure; its owner serialises the
// calls.
type Judge struct {
	hysteresis Hysteresis
	verdict    Verdict
}

// Verdict is what a Judge says.
type Verdict struct {
	State State
	// Latest is the latest attempt; zero if there was none yet.
	Latest Attempt
	// Observed is the instant of the latest attempt: the earlier of its end
	// and its deadline.
	Observed time.Time
	// Conclusive is the instant, as above, of the latest attempt that passed
	// or failed, and ConclusiveStart is its start. Zero if there was none.
	Conclusive, ConclusiveStart time.Time
	// Failures is how many fails in a row have counted.
	Failures int
	// Since is when the state last changed: the instant of the attempt that
	// changed it, or the judge's beginning.
	Since time.Time
}

// NewJudge returns a judge that has seen nothing since now.
func NewJudge(now time.Time) *Judge { return &Judge{verdict: Verdict{Since: now}} }

// Observe takes one attempt, which was made off the timer if extra, and returns
// the verdict and whether its state changed. A verdict that has gone stale
// before is gone: the attempt finds the service Unknown, as everybody else did.
func (j *Judge) Observe(a Attempt, extra bool) (v Verdict, changed bool) {
	at := a.Observed()
	if v := j.verdict; !v.Conclusive.IsZero() && at.Sub(v.Conclusive) >= StaleAfter {
		changed = v.State != Unknown
		j.hysteresis = Hysteresis{}
	}
	changed = j.hysteresis.Step(a.Outcome, extra) || changed
	j.verdict.Latest, j.verdict.Observed = a, at
	if a.conclusive() {
		j.verdict.Conclusive, j.verdict.ConclusiveStart = at, a.Start
	}
	if changed {
		j.verdict.State, j.verdict.Since = j.hysteresis.State(), at
	}
	j.verdict.Failures = j.hysteresis.Failures()
	return j.verdict, changed
}

// Suspended takes note that nothing could be observed for a while, of which the
// monotonic clock has missed asleep: what was before is that much longer ago
// than it looks, and fails before and after are not in a row.
func (j *Judge) Suspended(asleep time.Duration) {
	j.hysteresis.Step(Inconclusive, false)
	v := &j.verdict
	v.Failures = j.hysteresis.Failures()
	for _, t := range []*time.Time{&v.Latest.Start, &v.Latest.End, &v.Observed, &v.Conclusive, &v.ConclusiveStart, &v.Since} {
		if !t.IsZero() {
			*t = t.Add(-asleep)
		}
	}
}

// Verdict returns what the judge last said.
func (j *Judge) Verdict() Verdict { return j.verdict }

// StateAt returns the state as of now: Unknown once nothing conclusive was
// observed for StaleAfter.
func (v Verdict) StateAt(now time.Time) State {
	if v.Conclusive.IsZero() || now.Sub(v.Conclusive) >= StaleAfter {
		return Unknown
	}
	return v.State
}
