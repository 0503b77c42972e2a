// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Each fault is named with the field and the rule; faults are told together.
func TestConfigErrors(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "no.crt"), "nothing")
	alone := func(services ...probe.Service) Config {
		return Config{OpsListen: "127.0.0.1:0", Services: services}
	}
	with := func(edit func(*Config)) Config {
		c := Config{Gateway: "https://gateway:17690", Token: secret.New("t"), OpsListen: "127.0.0.1:0"}
		edit(&c)
		return c
	}
	many := make([]probe.Service, 257)
	for i := range many {
		many[i] = svc(fmt.Sprintf("s%d", i), 0, 80)
	}
	for _, tc := range []struct {
		name string
		c    Config
		want []string
	}{
		{"nothing wrong", with(func(*Config) {}), nil},
		{"a unix socket", with(func(c *Config) { c.Gateway = "unix:/run/gateway.sock" }), nil},
		{"a token file that is not there yet", with(func(c *Config) { c.Token, c.TokenFile = secret.String{}, "/missing" }), nil},
		{"alone, without services", alone(), nil},
		{"alone, the unnamed service", alone(svc("", 0, 80)), nil},
		{"no ops listener", with(func(c *Config) { c.OpsListen = "" }), []string{`ops-listen: "" is not of the form HOST:PORT`}},
		{"an ops listener without port", with(func(c *Config) { c.OpsListen = "localhost" }), []string{`ops-listen: "localhost" is not of the form`}},
		{"plain HTTP", with(func(c *Config) { c.Gateway = "http://gateway:1" }), []string{`gateway: scheme "http" is not supported`}},
		{"a gateway without port", with(func(c *Config) { c.Gateway = "https://gateway" }), []string{"gateway: has no port"}},
		{"a relative socket", with(func(c *Config) { c.Gateway = "unix:gateway.sock" }), []string{"gateway: the socket's path is not absolute"}},
		{"no token", with(func(c *Config) { c.Token = secret.String{} }), []string{"token-file: is not set"}},
		{"a sandbox that is none", with(func(c *Config) { c.Sandbox = "a b" }), []string{"sandbox: not valid"}},
		{"an authority that is not there", with(func(c *Config) { c.CAFile = filepath.Join(dir, "missing") }), []string{"ca-file: open "}},
		{"an authority that is none", with(func(c *Config) { c.CAFile = filepath.Join(dir, "no.crt") }), []string{"ca-file: ", "holds no PEM certificate"}},
		{"services beside a gateway", with(func(c *Config) { c.Services = many[:1] }), []string{"service: is for an agent without gateway"}},
		{"a port that is none", alone(svc("web", 0, 0)), []string{`service: "web": port 0`}},
		{"a path that is none", alone(probe.Service{Name: "web", Target: probe.Target{Port: 1, Path: "x"}}), []string{`service: "web": path begins with "x"`}},
		{"a name twice", alone(svc("web", 0, 1), svc("web", 0, 2)), []string{`service: the name "web" appears twice`}},
		{"a name in capitals", alone(svc("Web", 0, 1)), []string{`service: the name "Web" is not valid`}},
		{"a name that is no text", alone(svc("\xff", 0, 1)), []string{`service: the name "\xff" is not valid`}},
		{"a name with --", alone(svc("a--b", 0, 1)), []string{"is not valid"}},
		{"a name that ends in -", alone(svc("a-", 0, 1)), []string{"is not valid"}},
		{"a long name", alone(svc(strings.Repeat("a", 29), 0, 1)), []string{"is not valid"}},
		{"too many services", alone(many...), []string{"service: 257 are given; at most 256 are allowed"}},
		{"several", Config{Gateway: "x", OpsListen: "y"}, []string{"ops-listen: ", "token-file: ", "gateway: "}},
	} {
		err := tc.c.Validate()
		if (err != nil) != (len(tc.want) > 0) {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tc.name, err, want)
			}
		}
		tc.c.Logger = testkit.Logger(t)
		if len(tc.want) > 0 {
			if _, err := New(tc.c); err == nil {
				t.Errorf("%s: New takes it", tc.name)
			}
		}
	}
}

func TestAnOpsListenerThatIsTaken(t *testing.T) {
	a, err := New(Config{OpsListen: "127.0.0.1:0", Logger: testkit.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.ops.Close()
	_, err = New(Config{OpsListen: a.OpsAddr().String(), Logger: testkit.Logger(t)})
	if err == nil || !strings.HasPrefix(err.Error(), "ops-listen: ") {
		t.Errorf("a second agent on one port: %v", err)
	}
}

func TestTheAuthorityIsTrusted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	ca := muxtest.NewCA(t)
	put(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Cert.Certificate[0]})))
	c := Config{CAFile: file}
	tls, err := c.tls()
	if err != nil || tls.RootCAs == nil || tls.RootCAs.Equal(nil) {
		t.Errorf("%v %v", tls, err)
	}
	if tls, err := (Config{}).tls(); tls != nil || err != nil {
		t.Errorf("without a file the system's authorities are asked: %v %v", tls, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
