// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package statedir_test

import (
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/statedir"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestOfUser(t *testing.T) {
	for _, c := range []struct{ home, xdg, want string }{
		{"", "", ""},
		{"/home/a", "", "/home/a/.local/state/sandbox-gateway"},
		{"/home/a", "/state", "/state/sandbox-gateway"},
		{"", "/state", "/state/sandbox-gateway"},
	} {
		got := statedir.OfUser(func(name string) string {
			return map[string]string{"HOME": c.home, "XDG_STATE_HOME": c.xdg}[name]
		})
		if got != c.want {
			t.Errorf("HOME %q, XDG_STATE_HOME %q: %q, want %q", c.home, c.xdg, got, c.want)
		}
	}
}
