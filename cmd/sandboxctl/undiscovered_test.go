// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// What the command says, to the letter, when no gateway or no token is found:
// its words name its flags. @ stands for the directory of the files.
func TestUndiscovered(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"good/client.json":  `{"api":"https://local:1","token_file":"admin.token"}`,
		"good/admin.token":  "t0ken",
		"lost/client.json":  `{"api":"https://local:1","token_file":"lost.token"}`,
		"empty/client.json": `{"api":"https://local:1","token_file":"none.token"}`,
		"empty/none.token":  " \n",
		"bare/client.json":  `{"api":"https://bare:1"}`,
		"noapi/client.json": `{"token_file":"admin.token"}`,
		"bad/client.json":   `api: https://local:1`,
		"big/client.json":   strings.Repeat(" ", 64<<10+1),
		"http/client.json":  `{"api":"http://10.0.0.1:1","token_file":"../good/admin.token"}`,
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		flags, env string
		code       int
		want       string
	}{
		{"--gateway https://evil:1", "SANDBOX_GATEWAY_STATE_DIR=@/good", 1, "no token for the gateway at https://evil:1 (named by --gateway)\n" + tokenAdvice},
		{"", "SANDBOX_GATEWAY=https://evil:1 SANDBOX_GATEWAY_STATE_DIR=@/good", 1, "no token for the gateway at https://evil:1 (named by SANDBOX_GATEWAY)\n" + tokenAdvice},
		{"--state-dir @/bare", "", 1, "no token for the gateway at https://bare:1 (named by @/bare/client.json)\n" + tokenAdvice},
		{"", "HOME=@", 1, "no gateway found in @/.local/state/sandbox-gateway: start one with `sandbox-gateway serve`, or name it with --gateway\n"},
		{"", "", 1, "no gateway is named, and without HOME there is no place to look for one: name it with --gateway\n"},
		{"--state-dir @/none", "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's", 1, "no gateway found in @/none: start one with `sandbox-gateway serve`, or name it with --gateway\n"},
		{"--state-dir @/bad", "", 1, "@/bad/client.json: is not what a gateway writes: invalid character 'a' looking for beginning of value\n  Start the gateway again, or name it with --gateway.\n"},
		{"--state-dir @/noapi", "", 1, "@/noapi/client.json: is not what a gateway writes: it has no \"api\"\n  Start the gateway again, or name it with --gateway.\n"},
		{"--state-dir @/big", "", 1, "@/big/client.json: is larger than 64 KiB\n  Name the gateway with --gateway.\n"},
		{"--state-dir @/good/client.json", "", 1, "open @/good/client.json/client.json: not a directory\n  Name the gateway with --gateway.\n"},
		{"--state-dir @/empty", "", 1, "the token file @/empty/none.token (named by @/empty/client.json) is empty\n"},
		{"--state-dir @/lost", "", 1, "cannot read the token named by @/lost/client.json: open @/lost/lost.token: no such file or directory\n"},
		{"--state-dir @/good --token-file @/lost", "", 1, "cannot read the token named by --token-file: read @/lost: is a directory\n"},
		{"--state-dir @/http", "", 1, "@/http/client.json: plain text (http) is for this machine only: use https\n"},
		{"--gateway h --token-file @/good/admin.token", "", 2, "--gateway: must be \"https://HOST:PORT\", or \"http://HOST:PORT\" on this machine\n"},
		{"--gateway http://10.0.0.1:1 --token-file @/good/admin.token", "", 2, "--gateway: plain text (http) is for this machine only: use https\n"},
		{"--token-file @/bad/client.json", "SANDBOX_GATEWAY=https://env:1", 1, "the token from @/bad/client.json: holds a character that no token has (space, control or not ASCII)\n"},
		{"--ca-file @/good/admin.token --state-dir @/good", "", 1, "--ca-file: holds no PEM certificate\n"},
	} {
		f := &fixture{env: environment(strings.Fields(strings.ReplaceAll(tt.env, "@", dir)))}
		got := f.run(t, strings.Fields("sandbox list "+strings.ReplaceAll(tt.flags, "@", dir))...)
		said := strings.ReplaceAll(got.err, dir, "@")
		if got.code != tt.code || said != "sandboxctl: "+tt.want || got.out != "" {
			t.Errorf("%s (%s): exit %d, %q\nwant exit %d, %q", tt.flags, tt.env, got.code, said, tt.code, tt.want)
		}
	}
}

const tokenAdvice = "  Name a file that holds it with --token-file or SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN.\n"

// Root reads every file, so this one is made up.
func TestForbiddenStateDir(t *testing.T) {
	wrong := &sandbox.DiscoveryError{
		Fault: sandbox.FaultClientFile, Source: "/s/client.json", Err: &fs.PathError{Op: "open", Path: "/s/client.json", Err: fs.ErrPermission},
	}
	want := verdict{
		code: exitFailed, text: "open /s/client.json: permission denied",
		next: "The gateway there belongs to another user: work as that user, or name it with --gateway, --ca-file and --token-file.",
	}
	if got := judge(wrong, sandbox.Found{}, 0); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
