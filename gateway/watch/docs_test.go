// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"os"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
)

// docs/health.md has a row for each reason of UNKNOWN, and the limits as they
// are.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(b)), " ")
	reasons := 0
	for r := health.NoReason + 1; r.String() != "Unknown"; r++ {
		reasons++
		if !strings.Contains(text, "| `"+r.String()+"` |") {
			t.Errorf("no row for %v", r)
		}
	}
	if reasons < 8 {
		t.Errorf("%d reasons", reasons)
	}
	if MaxWatches != 1000 || MaxServices != 10000 || MaxWaits != 10000 || MaxTransitions != 64 {
		t.Error("the limits are others than in the next line")
	}
	for _, want := range []string{"1,000 watches of at most 10,000 services each, and 10,000 waits", "latest 64 changes"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}
