// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// FuzzDecode: whatever bytes an agent sends, what is read of them is within the
// contract's bounds.
func FuzzDecode(f *testing.F) {
	for _, m := range []*supervisorv1.Report{
		{},
		Encode(sample()),
		Encode(steady(20)),
		{Sequence: 1, Services: make([]*supervisorv1.Observation, 257)},
		{Sequence: math.MaxUint64, SinceAckUs: math.MaxUint64, Services: []*supervisorv1.Observation{{
			State: -1, Outcome: -1, Reason: 200, Code: math.MaxUint32, AgeMs: math.MaxUint64, InconclusiveMs: math.MaxUint64,
		}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &supervisorv1.Report{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		r, err := Decode(m)
		if err != nil {
			return
		}
		if r.Sequence == 0 || r.SinceAck < 0 || r.SinceAck > maxDuration || len(r.Observations) > probe.MaxServices || len(r.Observations) != len(m.GetServices()) {
			t.Fatalf("%+v", r)
		}
		for _, o := range r.Observations {
			switch {
			case o.State > probe.Unhealthy, o.Outcome > probe.Inconclusive, o.Reason > probe.Internal,
				o.Code != 0 && (o.Code < 100 || o.Code > 999),
				o.Address.IsValid() && !o.Address.IsLoopback(),
				o.Age < 0 || o.Age > maxDuration, o.StateAge < 0 || o.StateAge > maxDuration,
				o.Latency < 0, o.Failures < 0,
				o.Conclusive && o.ConclusiveAge < o.Age, !o.Conclusive && o.ConclusiveAge != 0,
				o.Outcome == probe.NoOutcome && o != (Observation{Revision: o.Revision}):
				t.Fatalf("%+v", o)
			}
		}
	})
}
