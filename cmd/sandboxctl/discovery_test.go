// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

const clientJSON = `{"api":"https://local:1","ca_file":"ca.crt","token_file":"admin.token","http":"http://local:2"}`

// What names what, and which of several wins.
func TestFindGateway(t *testing.T) {
	files := map[string]string{
		"/var/lib/sandbox-gateway/client.json":             clientJSON,
		"/var/lib/sandbox-gateway/admin.token":             "root's\n",
		"/home/u/.local/state/sandbox-gateway/client.json": clientJSON,
		"/home/u/.local/state/sandbox-gateway/admin.token": "home's",
		"/xdg/sandbox-gateway/client.json":                 `{"api":"https://local:1","token_file":"/abs/token"}`,
		"/abs/token":                                       "absolute",
		"/dir/client.json":                                 strings.Replace(clientJSON, "local:1", "dir:1", 1),
		"/dir/admin.token":                                 "dir's",
		"/empty/client.json":                               `{"api":"https://local:1","token_file":"none.token"}`,
		"/empty/none.token":                                " \n",
		"/lost/client.json":                                `{"api":"https://local:1","token_file":"lost.token"}`,
		"/bare/client.json":                                `{"api":"https://bare:1"}`,
		"/noapi/client.json":                               `{"token_file":"admin.token"}`,
		"/bad/client.json":                                 `api: https://local:1`,
		"/t":                                               "file's",
	}
	read := func(name string) ([]byte, error) {
		if strings.HasPrefix(name, "/secret") {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
		}
		if s, ok := files[name]; ok {
			return []byte(s), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	for _, tt := range []struct {
		name  string
		flags string // FLAG=VALUE …
		env   string
		root  bool
		want  string // ADDRESS by SOURCE | token from SOURCE | CA
		err   string
	}{
		{name: "root", root: true, want: "https://local:1 by /var/lib/sandbox-gateway/client.json | root's from /var/lib/sandbox-gateway/admin.token | /var/lib/sandbox-gateway/ca.crt"},
		{name: "home", env: "HOME=/home/u", want: "https://local:1 by /home/u/.local/state/sandbox-gateway/client.json | home's from /home/u/.local/state/sandbox-gateway/admin.token | /home/u/.local/state/sandbox-gateway/ca.crt"},
		{name: "XDG before home, absolute names", env: "HOME=/home/u XDG_STATE_HOME=/xdg", want: "https://local:1 by /xdg/sandbox-gateway/client.json | absolute from /abs/token | "},
		{name: "state dir of the environment", env: "HOME=/home/u SANDBOX_GATEWAY_STATE_DIR=/dir", want: "https://dir:1 by /dir/client.json | dir's from /dir/admin.token | /dir/ca.crt"},
		{name: "environment before client.json", env: "HOME=/home/u SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's", want: "https://env:1 by SANDBOX_GATEWAY | env's from SANDBOX_TOKEN | "},
		{name: "flag before environment", flags: "gateway=https://flag:1 token-file=/t ca-file=/c", env: "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's SANDBOX_CA_FILE=/e", want: "https://flag:1 by --gateway | file's from /t | /c"},
		{name: "each on its own", flags: "gateway=https://flag:1", env: "SANDBOX_TOKEN_FILE=/t SANDBOX_CA_FILE=/e", want: "https://flag:1 by --gateway | file's from /t | /e"},
		{name: "token before token file", env: "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's SANDBOX_TOKEN_FILE=/t", want: "https://env:1 by SANDBOX_GATEWAY | env's from SANDBOX_TOKEN | "},
		{name: "token of the environment for the local gateway", env: "HOME=/home/u SANDBOX_TOKEN=env's", want: "https://local:1 by /home/u/.local/state/sandbox-gateway/client.json | env's from SANDBOX_TOKEN | /home/u/.local/state/sandbox-gateway/ca.crt"},
		{name: "state dir of a flag before the environment", flags: "state-dir=/dir", env: "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's SANDBOX_CA_FILE=/e", want: "https://dir:1 by /dir/client.json | dir's from /dir/admin.token | /dir/ca.crt"},
		{name: "gateway flag before state dir flag", flags: "gateway=https://flag:1 state-dir=/dir token-file=/t", want: "https://flag:1 by --gateway | file's from /t | "},
		{name: "the same gateway, named twice", flags: "gateway=https://local:1/", root: true, want: "https://local:1/ by --gateway | root's from /var/lib/sandbox-gateway/admin.token | /var/lib/sandbox-gateway/ca.crt"},

		{name: "another gateway is not sent the local token", flags: "gateway=https://evil:1", root: true, err: "no token for the gateway at https://evil:1 (named by --gateway)"},
		{name: "nor by the environment", env: "HOME=/home/u SANDBOX_GATEWAY=https://evil:1", err: "no token for the gateway at https://evil:1 (named by SANDBOX_GATEWAY)"},
		{name: "nothing", env: "HOME=/nobody", err: "no gateway found in /nobody/.local/state/sandbox-gateway: start one with `sandbox-gateway serve`, or name it with --gateway"},
		{name: "no home", err: "without HOME there is no place to look"},
		{name: "empty state dir flag does not fall back", flags: "state-dir=/none", env: "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's", err: "no gateway found in /none"},
		{name: "not allowed", flags: "state-dir=/secret", err: "open /secret/client.json: permission denied"},
		{name: "no JSON", flags: "state-dir=/bad", err: "/bad/client.json: is not what a gateway writes"},
		{name: "no api", flags: "state-dir=/noapi", err: `/noapi/client.json: is not what a gateway writes: it has no "api"`},
		{name: "no token in client.json", flags: "state-dir=/bare", err: "no token for the gateway at https://bare:1"},
		{name: "empty token file", flags: "state-dir=/empty", err: "the token file /empty/none.token (named by /empty/client.json) is empty"},
		{name: "lost token file", flags: "state-dir=/lost", err: "cannot read the token named by /lost/client.json: open /lost/lost.token: file does not exist"},
		{name: "a named token file is not passed over", flags: "token-file=/lost", root: true, err: "cannot read the token named by --token-file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sources{env: environment(strings.Fields(tt.env)), euid: 1000, readFile: read}
			if tt.root {
				s.euid = 0
			}
			flags := environment(strings.Fields(tt.flags))
			s.flags.gateway.value, s.flags.tokenFile.value = flags["gateway"], flags["token-file"]
			s.flags.caFile.value, s.flags.stateDir.value = flags["ca-file"], flags["state-dir"]
			got, err := findGateway(s, true)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			shown := got.address + " by " + got.addressFrom + " | " + string(got.token) + " from " + got.tokenFrom + " | " + got.caFile
			if shown != tt.want {
				t.Errorf("got  %s\nwant %s", shown, tt.want)
			}
		})
	}
}

// A call that needs no token reads none.
func TestFindGatewayWithoutToken(t *testing.T) {
	s := sources{env: map[string]string{"SANDBOX_TOKEN_FILE": "/t"}, readFile: func(name string) ([]byte, error) {
		if name == "/t" {
			t.Error("the token file was read")
		}
		return nil, fs.ErrNotExist
	}}
	s.flags.gateway.value = "https://h:1"
	if got, err := findGateway(s, false); err != nil || got.token != "" {
		t.Errorf("%v, %v", got, err)
	}
}

// No file that is read is large; a pipe, which has no size, is bounded too.
func TestReadSmall(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for size, ok := range map[int]bool{0: true, smallFile: true, smallFile + 1: false} {
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := readSmall(name); (err == nil) != ok || (ok && len(b) != size) {
			t.Errorf("%d bytes: read %d, %v", size, len(b), err)
		}
	}
}

func FuzzClientFile(f *testing.F) {
	for _, s := range []string{clientJSON, "{}", "[]", `{"api":1}`, `{"api":"x","ca_file":"../../x"}`, "", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseClientFile(b); err == nil && c.API == "" {
			t.Errorf("accepted %q without an address", b)
		}
	})
}

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
