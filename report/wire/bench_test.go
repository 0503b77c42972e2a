// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
)

// BenchmarkReportSize measures a report of healthy services: its bytes, and
// what it costs each end.
func BenchmarkReportSize(b *testing.B) {
	for _, n := range []int{1, 20, 100} {
		r := steady(n)
		size := proto.Size(&supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: Encode(r)}})
		bytes, err := proto.Marshal(Encode(r))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d/encode", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := proto.Marshal(Encode(r)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size), "bytes/report")
		})
		b.Run(fmt.Sprintf("%d/decode", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m := &supervisorv1.Report{}
				if err := proto.Unmarshal(bytes, m); err != nil {
					b.Fatal(err)
				}
				if _, err := Decode(m); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size), "bytes/report")
		})
	}
}
