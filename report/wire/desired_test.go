// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"slices"
	"strings"
	"testing"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func TestDesiredRoundTrip(t *testing.T) {
	want := []probe.Service{
		{Name: "", Revision: 1, Target: probe.Target{Port: 1}},
		{Name: "web", Revision: 1 << 63, Target: probe.Target{Port: 65535, Path: "/readyz"}},
	}
	m := EncodeDesired(7, want)
	got, bad, err := DecodeDesired(m)
	if err != nil || len(bad) > 0 || !slices.Equal(got, want) || m.GetVersion() != 7 {
		t.Errorf("%+v %v %v, want %+v", got, bad, err, want)
	}
	if got, bad, err := DecodeDesired(EncodeDesired(1, nil)); err != nil || len(bad) > 0 || len(got) != 0 { // T11
		t.Errorf("the empty list: %+v %v %v", got, bad, err)
	}
}

func TestDecodeDesiredLeavesOutWhatBreaksARule(t *testing.T) {
	good := &supervisorv1.ServiceConfig{Revision: 1, Name: "good", Port: 80, Path: "/"}
	for _, tc := range []struct {
		name string
		m    *supervisorv1.ServiceConfig
		want string // in the error, after "services[1]"
	}{
		{"port 0", &supervisorv1.ServiceConfig{Name: "x"}, ": port 0"},
		{"port 65536", &supervisorv1.ServiceConfig{Name: "x", Port: 65536}, ".port: 65536 is not in 1..65535"},
		{"a port that is 80 in 16 bits", &supervisorv1.ServiceConfig{Name: "x", Port: 1<<16 + 80}, ".port: "},
		{"another host", &supervisorv1.ServiceConfig{Name: "x", Port: 1, Path: "//example.org/"}, `: path begins with "//"`},
		{"a query", &supervisorv1.ServiceConfig{Name: "x", Port: 1, Path: "/a?b"}, `: path has "?"`},
		{"a line end", &supervisorv1.ServiceConfig{Name: "x", Port: 1, Path: "/\r\nHost: x"}, ": path has byte 0x0d"},
		{"the same name again", &supervisorv1.ServiceConfig{Name: "good", Revision: 2, Port: 1}, `.name: "good" appears twice`},
	} {
		last := &supervisorv1.ServiceConfig{Revision: 3, Name: "last", Port: 81}
		got, bad, err := DecodeDesired(&supervisorv1.DesiredState{Services: []*supervisorv1.ServiceConfig{good, tc.m, last}})
		if err != nil || len(got) != 2 || got[0].Name != "good" || got[1].Name != "last" {
			t.Errorf("%s: %+v, %v; want the two others", tc.name, got, err)
		}
		if len(bad) != 1 || !strings.HasPrefix(bad[0].Error(), "services[1]"+tc.want) {
			t.Errorf("%s: %q, want services[1]%s", tc.name, bad, tc.want)
		}
	}
	if _, _, err := DecodeDesired(&supervisorv1.DesiredState{Services: make([]*supervisorv1.ServiceConfig, 257)}); !errors.Is(err, ErrTooManyServices) {
		t.Errorf("257 services: %v", err)
	}
	if got, bad, err := DecodeDesired(nil); len(got)+len(bad) > 0 || err != nil {
		t.Errorf("no message: %v %v %v", got, bad, err)
	}
}
