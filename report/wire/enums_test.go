// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// The agent's enumerations are sent as their numbers. Each number must mean the
// same on both sides, and none may be missing on either.
func TestEnumNumbers(t *testing.T) {
	for _, e := range []struct {
		prefix string
		names  map[int32]string
		value  func(n int) fmt.Stringer
		zero   string
	}{
		{"STATE_", supervisorv1.State_name, func(n int) fmt.Stringer { return probe.State(n) }, "UNKNOWN"},
		{"OUTCOME_", supervisorv1.Outcome_name, func(n int) fmt.Stringer { return probe.Outcome(n) }, "UNSPECIFIED"},
		{"REASON_", supervisorv1.Reason_name, func(n int) fmt.Stringer { return probe.Reason(n) }, "UNSPECIFIED"},
	} {
		for n := range len(e.names) {
			want := e.prefix + shout(e.value(n).String())
			if n == 0 {
				want = e.prefix + e.zero
			}
			if got := e.names[int32(n)]; got != want {
				t.Errorf("%d is %s on the wire and %v in probe", n, got, e.value(n))
			}
		}
		if next := e.value(len(e.names)).String(); !strings.EqualFold(next, "unknown") {
			t.Errorf("probe knows %s%d as %q, the wire does not", e.prefix, len(e.names), next)
		}
	}
}

// shout turns NotHTTP into NOT_HTTP.
func shout(s string) string {
	var b strings.Builder
	for i, c := range s {
		if upper := c < 'a'; upper && i > 0 && s[i-1] >= 'a' {
			b.WriteByte('_')
		}
		b.WriteRune(c)
	}
	return strings.ToUpper(b.String())
}
