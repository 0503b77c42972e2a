// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// sample has an observation of each kind.
func sample() report.Report {
	r := steady(1)
	late := r.Snapshot.Entries[0]
	late.Service.Revision = 7
	late.Verdict.Latest = probe.Attempt{Outcome: probe.Inconclusive, Reason: probe.Late, Start: t0.Add(-3 * time.Second), End: t0.Add(-2 * time.Second), Latency: time.Second}
	late.Verdict.Observed, late.Verdict.Conclusive = t0.Add(-2*time.Second), t0.Add(-7*time.Second)
	bad := late
	bad.Service.Revision = 8
	bad.Verdict.State, bad.Verdict.Failures = probe.Unhealthy, 3
	bad.Verdict.Latest = probe.Attempt{Outcome: probe.Fail, Reason: probe.BadStatus, Code: 503, Addr: netip.IPv6Loopback(), Latency: 2 * time.Millisecond}
	bad.Verdict.Conclusive = bad.Verdict.Observed
	never := late
	never.Service.Revision = 9
	never.Verdict.State, never.Verdict.Conclusive = probe.Unknown, time.Time{}
	untried := report.Entry{Service: probe.Service{Name: "new", Revision: 10}, Verdict: probe.NewJudge(t0).Verdict()}
	r.Snapshot.Entries = append(r.Snapshot.Entries, late, bad, never, untried)
	r.Snapshot.Stop = &report.Stop{MainExited: true, ExitCode: 143}
	return r
}

func TestRoundTrip(t *testing.T) {
	got := decode(t, Encode(sample()))
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	want := Report{
		Sequence: 1234, Generation: 98765, AckSeen: 1232, SinceAck: 9876543 * us,
		Stop: &report.Stop{MainExited: true, ExitCode: 143},
		Observations: []Observation{
			{
				Revision: 1000, State: probe.Healthy, Outcome: probe.Pass, Reason: probe.OK, Code: 200, Address: v4, Latency: 812 * us,
				Age: 50 * time.Millisecond, Conclusive: true, ConclusiveAge: 50 * time.Millisecond, StateAge: time.Hour,
			},
			{
				Revision: 7, State: probe.Healthy, Outcome: probe.Inconclusive, Reason: probe.Late, Latency: time.Second,
				Age: 2 * time.Second, Conclusive: true, ConclusiveAge: 7 * time.Second, StateAge: time.Hour,
			},
			{
				Revision: 8, State: probe.Unhealthy, Outcome: probe.Fail, Reason: probe.BadStatus, Code: 503, Address: v6, Latency: 2 * time.Millisecond,
				Failures: 3, Age: 2 * time.Second, Conclusive: true, ConclusiveAge: 2 * time.Second, StateAge: time.Hour,
			},
			{
				Revision: 9, Outcome: probe.Inconclusive, Reason: probe.Late, Latency: time.Second,
				Age: 2 * time.Second, StateAge: time.Hour,
			},
			{Revision: 10},
		},
	}
	if len(got.Observations) != len(want.Observations) {
		t.Fatalf("%d observations, want %d", len(got.Observations), len(want.Observations))
	}
	for i, o := range got.Observations {
		if o != want.Observations[i] {
			t.Errorf("observation %d:\n got %+v\nwant %+v", i, o, want.Observations[i])
		}
	}
	if *got.Stop != *want.Stop || got.Sequence != want.Sequence || got.Generation != want.Generation || got.AckSeen != want.AckSeen || got.SinceAck != want.SinceAck {
		t.Errorf("got %+v", got)
	}
	leaving := sample()
	leaving.Snapshot.Stop = &report.Stop{}
	if s := decode(t, Encode(leaving)).Stop; s == nil || *s != (report.Stop{}) {
		t.Errorf("an agent that was asked to stop: %+v", s)
	}
	if s := decode(t, Encode(steady(1))).Stop; s != nil {
		t.Errorf("an agent that goes on: %+v", s)
	}
}

// The bytes are the contract with agents and gateways of other versions.
func TestGoldenBytes(t *testing.T) {
	const file = "testdata/report.hex"
	got, err := proto.MarshalOptions{Deterministic: true}.Marshal(Encode(sample()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("a report is\n%x\nand %s says\n%x", got, file, want)
	}
}

// Whatever the fractions, an age never reads younger than it is, unless it is
// measured by an acknowledgement that it does not reach; and it always reads on
// the right side of that.
func TestRounding(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fraction := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	for i := range 20000 {
		age := fraction(20 * time.Second)
		since := age + fraction(4*time.Millisecond) - 2*time.Millisecond
		if i%2 == 0 {
			since = fraction(20 * time.Second)
		}
		since = max(0, since)
		r := steady(1)
		r.SinceAck = since
		v := &r.Snapshot.Entries[0].Verdict
		v.Observed = t0.Add(-age)
		v.Conclusive = v.Observed.Add(-fraction(5 * time.Second))
		v.Since = v.Conclusive.Add(-fraction(5 * time.Second))
		got := decode(t, Encode(r))
		o := got.Observations[0]
		for name, d := range map[string]struct{ is, reads time.Duration }{
			"age": {age, o.Age}, "age of the conclusive attempt": {t0.Sub(v.Conclusive), o.ConclusiveAge},
		} {
			switch {
			case d.is > since && d.reads <= got.SinceAck, d.is <= since && d.reads > got.SinceAck:
				t.Fatalf("%s %v reads %v: on the other side of an acknowledgement %v ago, which reads %v", name, d.is, d.reads, since, got.SinceAck)
			case d.reads < d.is && since-d.is >= time.Millisecond, d.reads-d.is >= time.Millisecond, d.is-d.reads >= time.Millisecond:
				t.Fatalf("%s %v reads %v", name, d.is, d.reads)
			}
		}
		if d := o.StateAge - t0.Sub(v.Since); d < 0 || d >= time.Millisecond || got.SinceAck > since {
			t.Fatalf("time since the change reads %v too long; the acknowledgement's age %v reads %v", d, since, got.SinceAck)
		}
	}
}

// What cannot be is read as the least that it could mean.
func TestEncodeClampsWhatCannotBe(t *testing.T) {
	r := steady(1)
	r.SinceAck = -time.Second
	v := &r.Snapshot.Entries[0].Verdict
	v.Observed, v.Conclusive, v.Since = t0.Add(time.Second), t0.Add(time.Second), t0.Add(time.Second)
	v.Latest.Latency = -1
	got := decode(t, Encode(r))
	if o := got.Observations[0]; got.SinceAck != 0 || o.Age != 0 || o.ConclusiveAge != 0 || o.StateAge != 0 || o.Latency != 0 {
		t.Errorf("got %+v", got)
	}
	v.Latest.Latency = 100 * time.Hour
	if o := decode(t, Encode(r)).Observations[0]; o.Latency != math.MaxUint32*us {
		t.Errorf("latency %v", o.Latency)
	}
}

func TestDecodeRefuses(t *testing.T) {
	services := func(n int) []*supervisorv1.Observation { return make([]*supervisorv1.Observation, n) }
	for _, tc := range []struct {
		name string
		m    *supervisorv1.Report
		want error
	}{
		{"no report at all", nil, ErrNoSequence},
		{"no sequence", &supervisorv1.Report{Generation: 1}, ErrNoSequence},
		{"257 services", &supervisorv1.Report{Sequence: 1, Services: services(257)}, ErrTooManyServices},
		{"256 services", &supervisorv1.Report{Sequence: 1, Services: services(256)}, nil},
		{"none", &supervisorv1.Report{Sequence: 1}, nil},
	} {
		if _, err := Decode(tc.m); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestDecodeReadsTheUnknownAsTheLeast(t *testing.T) {
	most := &supervisorv1.Observation{
		Revision: math.MaxUint64, State: 99, Outcome: 99, Reason: 99, Code: math.MaxUint32, Address: 99,
		AgeMs: math.MaxUint64, InconclusiveMs: math.MaxUint64, LatencyUs: math.MaxUint32, Failures: math.MaxUint32, StateAgeMs: math.MaxUint64,
	}
	negative := proto.CloneOf(most)
	negative.State, negative.Outcome, negative.Reason, negative.Address = -1, -1, -1, -1
	for _, m := range []*supervisorv1.Observation{most, negative} {
		r := decode(t, &supervisorv1.Report{Sequence: math.MaxUint64, Generation: math.MaxUint64, AckSeen: math.MaxUint64, SinceAckUs: math.MaxUint64, Services: []*supervisorv1.Observation{m}})
		o := r.Observations[0]
		if o.State != probe.Unknown || o.Outcome != probe.Inconclusive || o.Reason != probe.NoReason || o.Code != 0 || o.Address.IsValid() {
			t.Errorf("unknown values read %+v", o)
		}
		if r.SinceAck <= 0 || o.Age <= 0 || o.ConclusiveAge < o.Age || o.StateAge <= 0 || o.Failures != math.MaxInt32 {
			t.Errorf("the greatest numbers overflow: %+v %+v", r.SinceAck, o)
		}
		if old := t0.Add(-o.ConclusiveAge); !old.Before(t0.Add(-time.Hour)) {
			t.Errorf("an instant overflows: %v", old)
		}
	}
	for code, want := range map[uint32]uint16{0: 0, 99: 0, 100: 100, 999: 999, 1000: 0, 65636: 0} {
		m := &supervisorv1.Observation{Outcome: supervisorv1.Outcome_OUTCOME_PASS, Code: code}
		if got := decodeEntry(m).Code; got != want {
			t.Errorf("code %d reads %d, want %d", code, got, want)
		}
	}
	if s := decode(t, &supervisorv1.Report{Sequence: 1, Stop: &supervisorv1.StopNotice{Cause: 99, ExitCode: 5}}).Stop; s == nil || *s != (report.Stop{}) {
		t.Errorf("an unknown cause reads %+v, want a plain stop", s)
	}
}
