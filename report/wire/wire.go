// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// ErrTooManyServices is returned by Decode and DecodeDesired for a list of
// more than probe.MaxServices.
var ErrTooManyServices = errors.New("wire: more services than the limit of 256 per sandbox")

// ErrNoSequence is returned by Decode for a report without a number.
var ErrNoSequence = errors.New("wire: sequence is 0, reports are numbered from 1")

var (
	ipv4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	ipv6 = netip.IPv6Loopback()
)

// Report is a decoded report. Ages are relative to its making.
type Report struct {
	Sequence     uint64
	Generation   uint64
	AckSeen      uint64
	SinceAck     time.Duration
	Observations []Observation
	Stop         *report.Stop
}

// Observation is what the agent says of one configuration of a service.
type Observation struct {
	Revision uint64
	State    probe.State
	// Outcome is probe.NoOutcome if there was no attempt yet; then the rest is
	// zero.
	Outcome       probe.Outcome
	Reason        probe.Reason
	Code          uint16
	Address       netip.Addr // zero if no address answered
	Latency       time.Duration
	Failures      int
	Age           time.Duration // of the latest attempt
	Conclusive    bool          // any attempt was conclusive
	ConclusiveAge time.Duration // of the latest conclusive attempt
	StateAge      time.Duration // since the state changed
}

// Encode returns the message that says r.
func Encode(r report.Report) *supervisorv1.Report {
	m := &supervisorv1.Report{
		Sequence:   r.Sequence,
		Generation: r.Snapshot.Generation,
		AckSeen:    r.AckSeen,
		SinceAckUs: uint64(max(0, r.SinceAck.Microseconds())),
	}
	backing := make([]supervisorv1.Observation, len(r.Snapshot.Entries))
	m.Services = make([]*supervisorv1.Observation, len(backing))
	for i, e := range r.Snapshot.Entries {
		m.Services[i] = &backing[i]
		encodeEntry(&backing[i], e, r)
	}
	if s := r.Snapshot.Stop; s != nil {
		m.Stop = &supervisorv1.StopNotice{Cause: supervisorv1.StopNotice_CAUSE_AGENT_STOPPING}
		if s.MainExited {
			m.Stop.Cause = supervisorv1.StopNotice_CAUSE_MAIN_PROCESS_EXITED
			m.Stop.ExitCode = int32(s.ExitCode)
		}
	}
	return m
}

func encodeEntry(o *supervisorv1.Observation, e report.Entry, r report.Report) {
	v := e.Verdict
	o.Revision = e.Service.Revision
	if v.Observed.IsZero() {
		return
	}
	o.State = supervisorv1.State(v.State)
	o.Outcome = supervisorv1.Outcome(v.Latest.Outcome)
	o.Reason = supervisorv1.Reason(v.Latest.Reason)
	o.Code = uint32(v.Latest.Code)
	o.LatencyUs = uint32(min(max(0, v.Latest.Latency.Microseconds()), math.MaxUint32))
	o.Failures = uint32(v.Failures)
	switch {
	case v.Latest.Addr.Is4():
		o.Address = supervisorv1.Address_ADDRESS_IPV4
	case v.Latest.Addr.Is6():
		o.Address = supervisorv1.Address_ADDRESS_IPV6
	}
	o.AgeMs = ageMillis(r.Made.Sub(v.Observed), r.SinceAck)
	o.StateAgeMs = ceilMillis(r.Made.Sub(v.Since))
	if v.Conclusive.IsZero() {
		o.NeverConclusive = true
	} else {
		o.InconclusiveMs = ageMillis(r.Made.Sub(v.Conclusive), r.SinceAck) - o.AgeMs
	}
}

// ageMillis rounds an age up, but not beyond sinceAck if it is not longer than
// that: rounding must not make an observation look as if it was made before
// the acknowledgement, which then would prove nothing of it. An age that is
// longer than sinceAck stays so.
func ageMillis(age, sinceAck time.Duration) uint64 {
	ms := ceilMillis(age)
	if age <= sinceAck {
		ms = min(ms, uint64(sinceAck/time.Millisecond))
	}
	return ms
}

// ceilMillis rounds up, so that nothing looks younger than it is.
func ceilMillis(d time.Duration) uint64 {
	return uint64((max(0, d) + time.Millisecond - 1) / time.Millisecond)
}

// Decode reads a message of a sandbox.
func Decode(m *supervisorv1.Report) (Report, error) {
	if m.GetSequence() == 0 {
		return Report{}, ErrNoSequence
	}
	if len(m.GetServices()) > probe.MaxServices {
		return Report{}, fmt.Errorf("%w: it has %d", ErrTooManyServices, len(m.GetServices()))
	}
	r := Report{
		Sequence:     m.GetSequence(),
		Generation:   m.GetGeneration(),
		AckSeen:      m.GetAckSeen(),
		SinceAck:     duration(m.GetSinceAckUs(), time.Microsecond),
		Observations: make([]Observation, len(m.GetServices())),
	}
	for i, o := range m.GetServices() {
		r.Observations[i] = decodeEntry(o)
	}
	if s := m.GetStop(); s != nil {
		r.Stop = &report.Stop{}
		if s.GetCause() == supervisorv1.StopNotice_CAUSE_MAIN_PROCESS_EXITED {
			*r.Stop = report.Stop{MainExited: true, ExitCode: int(s.GetExitCode())}
		}
	}
	return r, nil
}

func decodeEntry(o *supervisorv1.Observation) Observation {
	d := Observation{Revision: o.GetRevision()}
	if o.GetOutcome() == supervisorv1.Outcome_OUTCOME_UNSPECIFIED {
		return d
	}
	d.Outcome = probe.Inconclusive
	if known(supervisorv1.Outcome_name, o.GetOutcome()) {
		d.Outcome = probe.Outcome(o.GetOutcome())
	}
	if known(supervisorv1.State_name, o.GetState()) {
		d.State = probe.State(o.GetState())
	}
	if known(supervisorv1.Reason_name, o.GetReason()) {
		d.Reason = probe.Reason(o.GetReason())
	}
	if o.GetCode() >= 100 && o.GetCode() <= 999 {
		d.Code = uint16(o.GetCode())
	}
	switch o.GetAddress() {
	case supervisorv1.Address_ADDRESS_IPV4:
		d.Address = ipv4
	case supervisorv1.Address_ADDRESS_IPV6:
		d.Address = ipv6
	}
	d.Latency = duration(uint64(o.GetLatencyUs()), time.Microsecond)
	d.Failures = int(min(o.GetFailures(), math.MaxInt32))
	d.Age = duration(o.GetAgeMs(), time.Millisecond)
	d.StateAge = duration(o.GetStateAgeMs(), time.Millisecond)
	if d.Conclusive = !o.GetNeverConclusive(); d.Conclusive {
		d.ConclusiveAge = d.Age + duration(o.GetInconclusiveMs(), time.Millisecond)
	}
	return d
}

func known[E ~int32](names map[int32]string, v E) bool {
	_, ok := names[int32(v)]
	return ok
}

// maxDuration bounds what a sandbox can claim, so that no sum overflows.
const maxDuration = 100 * 365 * 24 * time.Hour

func duration(n uint64, unit time.Duration) time.Duration {
	if n > uint64(maxDuration/unit) {
		return maxDuration
	}
	return time.Duration(n) * unit
}
