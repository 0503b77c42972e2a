// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"time"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
	"github.com/sandbox-agent/sandbox-agent/report/wire"
)

// Intake is what one session says, as far as it counts: what its agent was
// told to observe, and how its reports reach the cache. It has no stream and
// knows no clock, so that a simulation can drive it as a session does. Desired
// may be called beside the other methods, which take turns.
type Intake struct {
	cache     *health.Cache
	sandboxID string
	session   uint64
	instance  string
	desired   desiredState
	proof     *health.Proof
	count     func(outcome string) // of each observation
}

// NewIntake returns the intake of a session that owns the sandbox's slot in the
// cache, and the message that opens it, which counts as acknowledgement 0 and
// is sent at opened. count, if not nil, is told what became of each
// observation.
func NewIntake(cache *health.Cache, sandboxID string, session uint64, instance string, services []Service, opened time.Time, count func(outcome string)) (*Intake, *supervisorv1.DesiredState) {
	if count == nil {
		count = func(string) {}
	}
	in := &Intake{
		cache: cache, sandboxID: sandboxID, session: session, instance: instance,
		proof: health.NewProof(opened), count: count,
	}
	first, _ := in.desired.update(services)
	return in, first
}

// Desired takes over the stored services. It returns the message that says so,
// and whether it differs from the last one.
func (in *Intake) Desired(services []Service) (*supervisorv1.DesiredState, bool) {
	return in.desired.update(services)
}

// Taken is what became of a report.
type Taken struct {
	// Sequence is to be acknowledged.
	Sequence uint64
	// Superseded says that a newer session or a newer report was faster.
	Superseded bool
	// Stop is set in an agent's last report. Whoever asks finds no session from
	// then on.
	Stop *report.Stop
}

// Report takes a report that was received at the given instant. An error means
// that the agent broke the rules of the wire.
func (in *Intake) Report(m *supervisorv1.Report, received time.Time) (Taken, error) {
	r, err := wire.Decode(m)
	if err != nil {
		return Taken{}, err
	}
	stored := in.cache.Reported(in.sandboxID, in.session, r.Generation, in.observations(r, received), in.desired.all())
	if r.Stop != nil {
		in.cache.Disconnected(in.sandboxID, in.session, received)
	}
	return Taken{Sequence: r.Sequence, Superseded: !stored, Stop: r.Stop}, nil
}

// Acknowledging takes note that a report is about to be acknowledged.
func (in *Intake) Acknowledging(sequence uint64, now time.Time) { in.proof.Sending(sequence, now) }

// observations turns a report into what the cache holds. What the report
// cannot prove, and what is of a service unknown to this session, is left out
// one by one.
func (in *Intake) observations(r wire.Report, received time.Time) []health.Observation {
	out := make([]health.Observation, 0, len(r.Observations))
	for _, o := range r.Observations {
		id, ok := in.desired.service(o.Revision)
		if !ok {
			in.count("unknown_service")
			continue
		}
		if o.Outcome == probe.NoOutcome {
			continue // not tried yet: what was observed before, if anything, says more
		}
		h := health.Observation{ServiceID: id, Instance: in.instance, Revision: o.Revision}
		if h.Latest, ok = in.proof.Instant(r.AckSeen, r.SinceAck, o.Age, received); !ok {
			in.count("unproven")
			continue
		}
		if o.Conclusive {
			if h.Conclusive, ok = in.proof.Instant(r.AckSeen, r.SinceAck, o.ConclusiveAge, received); !ok {
				// Older than the proof reaches: it counts as stale.
				h.Conclusive = received.Add(-max(o.ConclusiveAge, probe.StaleAfter))
			}
		}
		h.State, h.Outcome, h.Reason, h.Code = o.State, o.Outcome, o.Reason, o.Code
		h.Address, h.Latency, h.Failures = o.Address, o.Latency, o.Failures
		h.Since = h.Latest.Add(min(0, o.Age-o.StateAge))
		in.count(outcomeLabel(o.Outcome))
		out = append(out, h)
	}
	return out
}

func outcomeLabel(o probe.Outcome) string {
	switch o {
	case probe.Pass:
		return "pass"
	case probe.Fail:
		return "fail"
	default:
		return "inconclusive"
	}
}
