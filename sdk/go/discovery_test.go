// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const clientJSON = `{"api":"https://local:1","ca_file":"ca.crt","token_file":"admin.token","http":"http://local:2"}`

const (
	rootDir = "/var/lib/sandbox-gateway"
	homeDir = "/home/u/.local/state/sandbox-gateway"
)

// disk is what readFile finds in these tests.
var disk = map[string]string{
	rootDir + "/client.json":           clientJSON,
	rootDir + "/admin.token":           "root's\n",
	homeDir + "/client.json":           clientJSON,
	homeDir + "/admin.token":           "home's",
	"/xdg/sandbox-gateway/client.json": `{"api":"https://local:1","token_file":"/abs/token"}`,
	"/abs/token":                       "absolute",
	"/dir/client.json":                 strings.Replace(clientJSON, "local:1", "dir:1", 1),
	"/dir/admin.token":                 "dir's",
	"/empty/client.json":               `{"api":"https://local:1","token_file":"none.token"}`,
	"/empty/none.token":                " \n",
	"/lost/client.json":                `{"api":"https://local:1","token_file":"lost.token"}`,
	"/bare/client.json":                `{"api":"https://bare:1"}`,
	"/noapi/client.json":               `{"token_file":"admin.token"}`,
	"/bad/client.json":                 `api: https://local:1`,
	"/form/client.json":                `{"api":"local:1","token_file":"/t"}`,
	"/t":                               "file's",
	"/two":                             "two words",
}

func readDisk(name string) ([]byte, error) {
	if s, ok := disk[name]; ok {
		return []byte(s), nil
	}
	err := fs.ErrNotExist
	if strings.HasPrefix(name, "/secret") {
		err = fs.ErrPermission
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}

// searchOf makes a search of NAME=VALUE …
func searchOf(told, env string, root bool) Search {
	variables := func(list string) map[string]string {
		all := map[string]string{}
		for _, pair := range strings.Fields(list) {
			name, value, _ := strings.Cut(pair, "=")
			all[name] = value
		}
		return all
	}
	flags, environment := variables(told), variables(env)
	return Search{
		Address:   Named{flags["gateway"], "--gateway"},
		TokenFile: Named{flags["token-file"], "--token-file"},
		CAFile:    Named{flags["ca-file"], "--ca-file"},
		StateDir:  flags["state-dir"],
		Env:       func(name string) string { return environment[name] },
		Root:      root,
	}
}

// What names what, and which of several wins.
func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name      string
		told, env string
		root      bool
		want      string // ADDRESS by SOURCE | TOKEN from SOURCE | CA by SOURCE
	}{
		{name: "root", root: true, want: "https://local:1 by ROOT/client.json | root's from ROOT/admin.token | ROOT/ca.crt by ROOT/client.json"},
		{name: "home", env: "HOME=/home/u", want: "https://local:1 by HOME/client.json | home's from HOME/admin.token | HOME/ca.crt by HOME/client.json"},
		{name: "XDG before home, absolute names", env: "HOME=/home/u XDG_STATE_HOME=/xdg", want: "https://local:1 by /xdg/sandbox-gateway/client.json | absolute from /abs/token"},
		{name: "state dir of the environment", env: "HOME=/home/u SANDBOX_GATEWAY_STATE_DIR=/dir", want: "https://dir:1 by /dir/client.json | dir's from /dir/admin.token | /dir/ca.crt by /dir/client.json"},
		{name: "environment before client.json", env: "HOME=/home/u SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's", want: "https://env:1 by SANDBOX_GATEWAY | env's from SANDBOX_TOKEN"},
		{name: "flag before environment", told: "gateway=https://flag:1 token-file=/t ca-file=/c", env: "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's SANDBOX_CA_FILE=/e", want: "https://flag:1 by --gateway | file's from /t | /c by --ca-file"},
		{name: "each on its own", told: "gateway=https://flag:1", env: "SANDBOX_TOKEN_FILE=/t SANDBOX_CA_FILE=/e", want: "https://flag:1 by --gateway | file's from /t | /e by SANDBOX_CA_FILE"},
		{name: "token before token file", env: "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's SANDBOX_TOKEN_FILE=/t", want: "https://env:1 by SANDBOX_GATEWAY | env's from SANDBOX_TOKEN"},
		{name: "token of the environment for the local gateway", env: "HOME=/home/u SANDBOX_TOKEN=env's", want: "https://local:1 by HOME/client.json | env's from SANDBOX_TOKEN | HOME/ca.crt by HOME/client.json"},
		{name: "state dir of a flag before the environment", told: "state-dir=/dir", env: "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's SANDBOX_CA_FILE=/e", want: "https://dir:1 by /dir/client.json | dir's from /dir/admin.token | /dir/ca.crt by /dir/client.json"},
		{name: "what that leaves out is the environment's", told: "state-dir=/bare", env: "SANDBOX_TOKEN=env's SANDBOX_CA_FILE=/e", want: "https://bare:1 by /bare/client.json | env's from SANDBOX_TOKEN | /e by SANDBOX_CA_FILE"},
		{name: "gateway flag before state dir flag", told: "gateway=https://flag:1 state-dir=/dir token-file=/t", want: "https://flag:1 by --gateway | file's from /t"},
		{name: "gateway flag beside a state dir flag with nothing in it", told: "gateway=https://flag:1 state-dir=/none token-file=/t", want: "https://flag:1 by --gateway | file's from /t"},
		{name: "the same gateway, named twice", told: "gateway=https://local:1/", root: true, want: "https://local:1/ by --gateway | root's from ROOT/admin.token | ROOT/ca.crt by ROOT/client.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := searchOf(tt.told, tt.env, tt.root).find(readDisk)
			if err != nil {
				t.Fatal(err)
			}
			shown := got.Address + " by " + got.AddressFrom + " | " + string(got.Token) + " from " + got.TokenFrom
			if got.CAFile+got.CAFileFrom != "" {
				shown += " | " + got.CAFile + " by " + got.CAFileFrom
			}
			if want := strings.NewReplacer("ROOT", rootDir, "HOME", homeDir).Replace(tt.want); shown != want {
				t.Errorf("got  %s\nwant %s", shown, want)
			}
		})
	}
}

// Which source is at fault, and what the error says, to the letter.
func TestFindFaults(t *testing.T) {
	for _, tt := range []struct {
		name      string
		told, env string
		root      bool
		fault     DiscoveryFault
		source    string
		want      string
	}{
		{"another gateway is not sent the local token", "gateway=https://evil:1", "", true, FaultNoToken, "--gateway", "no token for the gateway at https://evil:1 (named by --gateway): name a file that holds it with SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN"},
		{"nor by the environment", "", "HOME=/home/u SANDBOX_GATEWAY=https://evil:1", false, FaultNoToken, "SANDBOX_GATEWAY", "no token for the gateway at https://evil:1 (named by SANDBOX_GATEWAY): name a file that holds it with SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN"},
		{"no token in client.json", "state-dir=/bare", "", false, FaultNoToken, "/bare/client.json", "no token for the gateway at https://bare:1 (named by /bare/client.json): name a file that holds it with SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN"},
		{"nothing", "", "HOME=/nobody", false, FaultNoGateway, "/nobody/.local/state/sandbox-gateway", "no gateway found in /nobody/.local/state/sandbox-gateway: start one with `sandbox-gateway serve`, or name it with SANDBOX_GATEWAY"},
		{"no home", "", "", false, FaultNoGateway, "", "no gateway is named, and without HOME there is no place to look for one: name it with SANDBOX_GATEWAY"},
		{"empty state dir flag does not fall back", "state-dir=/none", "SANDBOX_GATEWAY=https://env:1 SANDBOX_TOKEN=env's", false, FaultNoGateway, "/none", "no gateway found in /none: start one with `sandbox-gateway serve`, or name it with SANDBOX_GATEWAY"},
		{"not allowed", "state-dir=/secret", "", false, FaultClientFile, "/secret/client.json", "open /secret/client.json: permission denied"},
		{"no JSON", "state-dir=/bad", "", false, FaultClientContent, "/bad/client.json", "/bad/client.json: is not what a gateway writes: invalid character 'a' looking for beginning of value"},
		{"no api", "state-dir=/noapi", "", false, FaultClientContent, "/noapi/client.json", `/noapi/client.json: is not what a gateway writes: it has no "api"`},
		{"empty token file", "state-dir=/empty", "", false, FaultTokenFile, "/empty/client.json", "the token file /empty/none.token (named by /empty/client.json) is empty"},
		{"lost token file", "state-dir=/lost", "", false, FaultTokenFile, "/lost/client.json", "cannot read the token named by /lost/client.json: open /lost/lost.token: file does not exist"},
		{"a named token file is not passed over", "token-file=/lost", "", true, FaultTokenFile, "--token-file", "cannot read the token named by --token-file: open /lost: file does not exist"},
		{"form of the address", "", "SANDBOX_GATEWAY=h SANDBOX_TOKEN=t", false, FaultValue, "SANDBOX_GATEWAY", `SANDBOX_GATEWAY: must be "https://HOST:PORT", or "http://HOST:PORT" on this machine`},
		{"form of the address in client.json", "state-dir=/form", "", false, FaultValue, "/form/client.json", `/form/client.json: must be "https://HOST:PORT", or "http://HOST:PORT" on this machine`},
		{"form of the token", "token-file=/two", "SANDBOX_GATEWAY=https://env:1", false, FaultValue, "/two", "the token from /two: holds a character that no token has (space, control or not ASCII)"},
		{"unprintable", "gateway=https://evil:1/\x1b[2J", "", false, FaultNoToken, "--gateway", `"no token for the gateway at https://evil:1/\x1b[2J (named by --gateway)": name a file that holds it with SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := searchOf(tt.told, tt.env, tt.root).find(readDisk)
			wrong, ok := errors.AsType[*DiscoveryError](err)
			if !ok || wrong.Fault != tt.fault || wrong.Source != tt.source || wrong.Error() != "sandbox: "+tt.want {
				t.Errorf("error %#v:\n%v\nwant fault %d of %q:\n%s", err, err, tt.fault, tt.source, tt.want)
			}
			if got.Address != "" || got.Token != "" || got.CAFile != "" {
				t.Errorf("%v was found beside an error", got)
			}
		})
	}
	_, err := searchOf("state-dir=/secret", "", false).find(readDisk)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

// A program that needs no token has none read.
func TestFindWithoutToken(t *testing.T) {
	s := searchOf("gateway=https://h:1", "SANDBOX_TOKEN_FILE=/t SANDBOX_TOKEN=t", false)
	s.NoToken = true
	got, err := s.find(func(name string) ([]byte, error) {
		if name == "/t" {
			t.Error("the token file was read")
		}
		return nil, fs.ErrNotExist
	})
	if err != nil || got.Token != "" || got.TokenFrom != "" {
		t.Errorf("%v, %v", got, err)
	}
}

// A state directory is asked whatever the environment says, and its errors do
// not speak of the environment.
func TestFromStateDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"SANDBOX_GATEWAY": "https://env:1", "SANDBOX_TOKEN": "env's", "SANDBOX_CA_FILE": "/e", "SANDBOX_GATEWAY_STATE_DIR": dir,
	} {
		t.Setenv(name, value)
	}
	t.Chdir(t.TempDir()) // where no gateway is
	for _, tt := range []struct{ client, dir, want string }{
		{"", dir, "sandbox: no gateway found in " + dir + ": start one with `sandbox-gateway serve`"},
		{clientJSON, "", "sandbox: no gateway found in .: start one with `sandbox-gateway serve`"},
		{`{"api":"https://bare:1"}`, dir, "sandbox: no token for the gateway at https://bare:1 (named by " + dir + "/client.json)"},
		{clientJSON, dir, ""},
	} {
		if tt.client != "" {
			write("client.json", tt.client)
			write("admin.token", "t0ken\n")
		}
		o, err := FromStateDir(tt.dir)
		if tt.want != "" {
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			continue
		}
		if err != nil || o.Address != "https://local:1" || o.Token != "t0ken" || o.CAFile != filepath.Join(dir, "ca.crt") {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

// The process's own environment.
func TestDiscover(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"SANDBOX_GATEWAY", "SANDBOX_TOKEN", "SANDBOX_TOKEN_FILE", "SANDBOX_CA_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("SANDBOX_GATEWAY_STATE_DIR", dir)
	_, err := Discover()
	if wrong, ok := errors.AsType[*DiscoveryError](err); !ok || wrong.Fault != FaultNoGateway || wrong.Source != dir {
		t.Errorf("error %v, want no gateway in %s", err, dir)
	}
	t.Setenv("SANDBOX_GATEWAY", "https://env:1")
	t.Setenv("SANDBOX_TOKEN", "env's")
	if o, err := Discover(); err != nil || o.Address != "https://env:1" || o.Token != "env's" {
		t.Errorf("%+v, %v", o, err)
	}
}

// What Dial finds wrong names its source, unless the program set it.
func TestFoundDial(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx   context.Context
		found Found
		want  string // empty: none
	}{
		{t.Context(), Found{Options: Options{Address: "https://h"}, AddressFrom: "A"}, ""},
		{t.Context(), Found{Options: Options{Address: "http://h"}, AddressFrom: "A"}, "sandbox: A: plain text (http) is for this machine only: use https"},
		{t.Context(), Found{Options: Options{Address: "https://h", CAFile: file}, AddressFrom: "A", CAFileFrom: "C"}, "sandbox: C: holds no PEM certificate"},
		{t.Context(), Found{Options: Options{Address: "https://h", CAFile: file}, AddressFrom: "A"}, "sandbox: Options.CAFile: holds no PEM certificate"},
		{t.Context(), Found{Options: Options{Address: "https://h", CA: []byte("x")}, AddressFrom: "A"}, "sandbox: Options.CA: holds no PEM certificate"},
		{t.Context(), Found{Options: Options{Address: "https://h", CAFile: "/none/\a"}}, `sandbox: Options.CAFile: "open /none/\a: no such file or directory"`},
		{ended, Found{Options: Options{Address: "https://h"}}, "context canceled"},
	} {
		c, err := tt.found.Dial(tt.ctx)
		if c != nil {
			c.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%+v: error %v, want %q", tt.found, err, tt.want)
		}
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
