// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

// The sources as they are on a machine: real files, TLS, and errors that say
// which source is at fault.
func TestDiscovery(t *testing.T) {
	f := newFixture(t)
	f.fill()
	other := t.TempDir()
	sandboxtest.StartTLS(t, sandboxtest.New(sandboxtest.Options{}), other)
	for _, tt := range []struct {
		line string
		env  string
		code int
		want string // on stdout when code is 0, else on stderr
	}{
		{"sandbox list", "SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 0, "web"},
		{"sandbox list --state-dir " + f.dir, "", 0, "web"},
		{"sandbox list -w blue", "SANDBOX_WORKSPACE=empty SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 0, "far"},
		{"sandbox list", "SANDBOX_WORKSPACE=blue SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 0, "far"},
		{"sandbox list -A", "SANDBOX_WORKSPACE=blue SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 0, "web"},
		{"sandbox list --gateway " + f.address + " --ca-file " + filepath.Join(f.dir, "ca.crt"), "SANDBOX_TOKEN=" + token, 0, "web"},
		{"gateway status --gateway " + f.address + " --ca-file " + filepath.Join(f.dir, "ca.crt"), "", 0, "Healthy"},
		{"sandbox list", "SANDBOX_TOKEN=other SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 1, "refused the token from SANDBOX_TOKEN: the token is not valid"},
		{"sandbox list", "SANDBOX_TOKEN=" + token + "\x01 SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 1, "the token from SANDBOX_TOKEN: holds a character that no token has"},
		{"sandbox list --ca-file " + filepath.Join(other, "ca.crt"), "SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 1, "no connection to the gateway at " + f.address},
		{"sandbox list --ca-file /nonexistent", "SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 1, "--ca-file: open /nonexistent: no such file"},
		{"sandbox list", "SANDBOX_CA_FILE=" + filepath.Join(f.dir, "client.json") + " SANDBOX_GATEWAY_STATE_DIR=" + f.dir, 1, "SANDBOX_CA_FILE: holds no PEM certificate"},
		{"gateway status", "SANDBOX_GATEWAY=h", 1, `SANDBOX_GATEWAY: must be "https://HOST:PORT"`},
		{"gateway status", "HOME=" + other, 1, "no gateway found in " + other + "/.local/state/sandbox-gateway: start one with `sandbox-gateway serve`, or name it with --gateway"},
		{"gateway status", "SANDBOX_GATEWAY=http://127.0.0.1:1", 1, "no connection to the gateway at http://127.0.0.1:1 (named by SANDBOX_GATEWAY)"},
	} {
		f.env = environment(strings.Fields(tt.env))
		got := f.run(t, strings.Fields(tt.line)...)
		shown := got.out
		if tt.code != 0 {
			shown = got.err
		}
		if got.code != tt.code || !strings.Contains(shown, tt.want) {
			t.Errorf("%s (%s): exit %d\n%s%swant exit %d and %q", tt.line, tt.env, got.code, got.out, got.err, tt.code, tt.want)
		}
	}
}
