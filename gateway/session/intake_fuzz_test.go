// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// frame is one report of a session: how long after the one before it comes, in
// units of 100 ms, and its bytes.
func frame(after byte, m *supervisorv1.Report) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint16([]byte{after}, uint16(len(b))), b...)
}

// FuzzIntake: whatever an agent says, and in whatever order, it says it of its
// own services alone, of configurations that it was told, and of no time to
// come; and no answer is fresh for longer than it may be.
func FuzzIntake(f *testing.F) {
	good := &supervisorv1.Observation{
		Revision: 1, State: supervisorv1.State_STATE_HEALTHY, Outcome: supervisorv1.Outcome_OUTCOME_PASS, Reason: supervisorv1.Reason_REASON_OK,
		Code: 200, AgeMs: 100, StateAgeMs: 5000, LatencyUs: 700, Address: supervisorv1.Address_ADDRESS_IPV4,
	}
	liar := &supervisorv1.Observation{
		Revision: 3, State: 9, Outcome: 9, Reason: 99, Code: math.MaxUint32, AgeMs: math.MaxUint64, InconclusiveMs: math.MaxUint64,
		StateAgeMs: math.MaxUint64, LatencyUs: math.MaxUint32, Failures: math.MaxUint32, Address: 9,
	}
	first := frame(1, &supervisorv1.Report{Sequence: 1, Generation: 1, SinceAckUs: 100_000, Services: []*supervisorv1.Observation{good, {Revision: 2}}})
	f.Add(first)
	f.Add(append(first, frame(50, &supervisorv1.Report{Sequence: 2, Generation: 2, AckSeen: 1, SinceAckUs: 5_000_000, Services: []*supervisorv1.Observation{good, liar}})...))
	f.Add(append(first, frame(200, &supervisorv1.Report{Sequence: 2, AckSeen: 9, SinceAckUs: math.MaxUint64, Services: []*supervisorv1.Observation{good, good}})...))
	f.Add(frame(0, &supervisorv1.Report{Sequence: math.MaxUint64, Stop: &supervisorv1.StopNotice{Cause: 9, ExitCode: math.MinInt32}}))
	f.Fuzz(func(t *testing.T, session []byte) {
		now := time.Now()
		cache := health.NewCache()
		cache.Connected("sandbox", 1, 1, "agent")
		told := []Service{{ID: "a", Service: probe.Service{Name: "a", Revision: 1}}, {ID: "b", Service: probe.Service{Name: "b", Revision: 2}}}
		in, _ := NewIntake(cache, "sandbox", 1, "agent", told, now, nil)
		for len(session) >= 3 {
			n := min(int(binary.BigEndian.Uint16(session[1:])), len(session)-3)
			now = now.Add(time.Duration(session[0]) * 100 * time.Millisecond)
			m := &supervisorv1.Report{}
			bad := proto.Unmarshal(session[3:3+n], m) != nil
			session = session[3+n:]
			if bad {
				continue
			}
			taken, err := in.Report(m, now)
			if err != nil {
				return // the session ends
			}
			in.Acknowledging(taken.Sequence, now)
			checkAnswers(t, cache, now)
		}
	})
}

// checkAnswers asks for the services of the session and for others.
func checkAnswers(t *testing.T, cache *health.Cache, now time.Time) {
	t.Helper()
	slot := cache.Slot("sandbox")
	for _, e := range []health.Endpoint{
		{ID: "a", Revision: 1, Generation: 1},
		{ID: "b", Revision: 2, Generation: 1},
		{ID: "a", Revision: 2, Generation: 1},
		{ID: "c", Revision: 3, Generation: 1},
		{ID: "", Generation: 1},
		{ID: "a", Revision: 1, Generation: 2},
	} {
		a := health.Evaluate(e, health.Ready, slot, now)
		own := e.Generation == 1 && (e.ID == "a" && e.Revision == 1 || e.ID == "b" && e.Revision == 2)
		o := a.Observation
		switch {
		case o == nil && a.Reason == health.NoReason, o != nil && !own:
			t.Fatalf("%+v: %+v, %+v", e, a, o)
		case o == nil:
		case o.ServiceID != e.ID || o.Revision != e.Revision || o.Instance != "agent",
			o.Latest.After(now) || o.Conclusive.After(now) || o.Since.After(o.Latest),
			o.State > probe.Unhealthy || o.Outcome == probe.NoOutcome || o.Latency < 0 || o.Failures < 0:
			t.Fatalf("%+v: %+v", e, *o)
		case a.Reason != health.Stale && a.Expires().After(now.Add(probe.StaleAfter)):
			t.Fatalf("%+v is fresh until %v from now", e, a.Expires().Sub(now))
		}
	}
}
