// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStateDirOf(t *testing.T) {
	mine := t.TempDir()
	other := filepath.Join(mine, "none", "sandbox-gateway")
	for _, c := range []struct {
		dir  string
		euid int
		env  []string
		want string
	}{
		{other, 0, []string{"HOME=/home/a"}, other},
		{mine, os.Geteuid() + 1, []string{"HOME=/home/a"}, "/home/a/.local/state/" + filepath.Base(mine)},
		{other, 1000, []string{"HOME=/home/a"}, "/home/a/.local/state/sandbox-gateway"},
		{other, 1000, []string{"HOME=/home/a", "XDG_STATE_HOME=/state"}, "/state/sandbox-gateway"},
		{other, 1000, nil, other},
	} {
		if got := stateDirOf(c.dir, c.euid, lookup(c.env)); got != c.want {
			t.Errorf("%s of user %d with %v: %s, want %s", c.dir, c.euid, c.env, got, c.want)
		}
	}
	if os.Geteuid() != 0 { // root is asked nothing
		if got := stateDirOf(mine, os.Geteuid(), lookup([]string{"HOME=/home/a"})); got != mine {
			t.Errorf("its owner: %s, want %s", got, mine)
		}
		return
	}
	if err := os.Chown(mine, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if got := stateDirOf(mine, 1000, lookup([]string{"HOME=/home/a"})); got != mine {
		t.Errorf("its owner: %s, want %s", got, mine)
	}
}
