// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
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
		{mine, os.Geteuid() + 1, []string{"HOME=/home/a"}, "/home/a/.local/state/sandbox-gateway"},
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

// What a user other than root has set, wherever, is the state directory.
func TestStateDirThatIsSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("state-dir: /file/gw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, env []string
		want      string
	}{
		{nil, nil, "/home/a/.local/state/sandbox-gateway"},
		{[]string{"--state-dir", "/flag/gw"}, nil, "/flag/gw"},
		{nil, []string{"SANDBOX_GATEWAY_STATE_DIR=/env/gw"}, "/env/gw"},
		{[]string{"--config", file}, nil, "/file/gw"},
		{nil, []string{"SANDBOX_GATEWAY_STATE_DIR=/var/lib/sandbox-gateway"}, "/var/lib/sandbox-gateway"},
	} {
		cmd, o := &cobra.Command{}, options{}
		o.register(cmd)
		o.euid = 1000
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := o.load(cmd, append(c.env, "HOME=/home/a")); err != nil || o.gateway.StateDir != c.want {
			t.Errorf("%q and %q: %s, %v; want %s", c.args, c.env, o.gateway.StateDir, err, c.want)
		}
	}
}
