// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const us = time.Microsecond

// steady is a report of n healthy services as it is sent every five seconds.
func steady(n int) report.Report {
	r := report.Report{Sequence: 1234, AckSeen: 1232, SinceAck: 9876543 * us, Made: t0}
	r.Snapshot.Generation = 98765
	for i := range n {
		a := probe.Attempt{
			Outcome: probe.Pass, Reason: probe.OK, Code: 200, Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
			Start: t0.Add(-51 * time.Millisecond), End: t0.Add(-50 * time.Millisecond), Latency: 812 * us,
		}
		r.Snapshot.Entries = append(r.Snapshot.Entries, report.Entry{
			Service: probe.Service{Name: fmt.Sprintf("service-%03d", i), Revision: uint64(1000 + i), Target: probe.Target{Port: 8080}},
			Verdict: probe.Verdict{
				State: probe.Healthy, Latest: a, Observed: a.End, Conclusive: a.End, ConclusiveStart: a.Start,
				Since: t0.Add(-time.Hour),
			},
		})
	}
	return r
}

// over sends a message through its bytes.
func over(t testing.TB, m *supervisorv1.Report) *supervisorv1.Report {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	out := &supervisorv1.Report{}
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return out
}

func decode(t testing.TB, m *supervisorv1.Report) Report {
	t.Helper()
	r, err := Decode(over(t, m))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return r
}
