// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// FuzzDecodeDesired: whatever bytes a gateway sends, what is read of them is a
// list that can be attempted, and what is left out is named one by one in plain
// text.
func FuzzDecodeDesired(f *testing.F) {
	for _, m := range []*supervisorv1.DesiredState{
		{},
		{Version: 1, Services: []*supervisorv1.ServiceConfig{{Revision: 1, Name: "web", Port: 8080, Path: "/ready"}, {Revision: 2, Port: 1}}},
		{Services: []*supervisorv1.ServiceConfig{{Name: "a", Port: 80}, {Name: "a", Port: 81}, {}, {Port: math.MaxUint32}, {Name: "\x1b[2J", Port: 65535, Path: "//x"}}},
		{Version: math.MaxUint64, Services: make([]*supervisorv1.ServiceConfig, probe.MaxServices+1)},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &supervisorv1.DesiredState{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		services, bad, err := DecodeDesired(m)
		if err != nil {
			if len(m.GetServices()) <= probe.MaxServices || services != nil || bad != nil {
				t.Fatalf("%d services: %v", len(m.GetServices()), err)
			}
			return
		}
		if len(services)+len(bad) != len(m.GetServices()) {
			t.Fatalf("of %d services %d are taken and %d are not", len(m.GetServices()), len(services), len(bad))
		}
		seen := map[string]bool{}
		for _, s := range services {
			if err := s.Target.Validate(); err != nil || seen[s.Name] {
				t.Fatalf("%+v is taken: %v", s, err)
			}
			seen[s.Name] = true
		}
		for _, err := range bad {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Fatalf("raw text in %q", err)
			}
		}
	})
}
