// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

func TestDefaultsAreValid(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{"grpc": c.GRPCListen, "http": c.HTTPListen, "supervisor": c.SupervisorListen, "ops": c.OpsListen} {
		if !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("%s listens on %s by default, which is not the loopback", name, addr)
		}
	}
	if c.DrainGrace != 25*time.Second || c.RoutingDomain != "sandbox.localhost" || c.socket() != "/var/lib/sandbox-gateway/supervisor/agent.sock" {
		t.Errorf("defaults %+v", c)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		edit func(*Config)
		want string // "": valid
	}{
		{func(c *Config) { c.StateDir = "state" }, `state-dir: "state" is not an absolute path` + "\n" + `supervisor-socket: "state/supervisor/agent.sock" must be an absolute path of at most 107 bytes`},
		{func(c *Config) { c.StateDir = "" }, `state-dir: "" is not an absolute path` + "\n" + `supervisor-socket: "supervisor/agent.sock" must be an absolute path of at most 107 bytes`},
		{func(c *Config) { c.StateDir = "/" + strings.Repeat("d", 100) }, `supervisor-socket: "/` + strings.Repeat("d", 100) + `/supervisor/agent.sock" must be an absolute path of at most 107 bytes`},
		{func(c *Config) { c.GRPCListen = "17670" }, `grpc-listen: "17670" is not of the form HOST:PORT`},
		{func(c *Config) { c.GRPCListen = "localhost:" }, `grpc-listen: "localhost:" is not of the form HOST:PORT`},
		{func(c *Config) { c.HTTPListen = "localhost:http" }, `http-listen: "localhost:http" is not of the form HOST:PORT`},
		{func(c *Config) { c.HTTPListen = "::1:80" }, `http-listen: "::1:80" is not of the form HOST:PORT`},
		{func(c *Config) { c.SupervisorListen = "" }, `supervisor-listen: "" is not of the form HOST:PORT`},
		{func(c *Config) { c.OpsListen = ":65536" }, `ops-listen: ":65536" is not of the form HOST:PORT`},
		{func(c *Config) { c.OpsListen = ":-1" }, `ops-listen: ":-1" is not of the form HOST:PORT`},
		{func(c *Config) { c.SupervisorSocket = "agent.sock" }, `supervisor-socket: "agent.sock" must be an absolute path of at most 107 bytes`},
		{func(c *Config) { c.SupervisorSocket = c.StateDir + "/agent.sock" }, `supervisor-socket: "/var/lib/sandbox-gateway/agent.sock" must not be in the state directory itself: local sandboxes see the socket's directory`},
		{func(c *Config) { c.RoutingDomain = "" }, `routing-domain: "" is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = "Example.com" }, `routing-domain: "Example.com" is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = ".example.com" }, `routing-domain: ".example.com" is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = "example.com." }, `routing-domain: "example.com." is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = "-a.com" }, `routing-domain: "-a.com" is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = "a_b.com" }, `routing-domain: "a_b.com" is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = "x\x1b[31m" }, `routing-domain: "x\x1b[31m" is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = strings.Repeat("a", 64) }, `routing-domain: "` + strings.Repeat("a", 64) + `" is not a lowercase domain name`},
		{func(c *Config) { c.RoutingDomain = strings.Repeat("a.", 95) + "a" }, `routing-domain: "` + strings.Repeat("a.", 95) + `a" is not a lowercase domain name`},
		{func(c *Config) { c.TLSNames = []string{"ok.example", "bad name"} }, `tls-names: "bad name" is neither an address nor a lowercase domain name`},
		{func(c *Config) { c.TLSNames = []string{""} }, `tls-names: "" is neither an address nor a lowercase domain name`},
		{func(c *Config) { c.DrainGrace = -time.Second }, `drain-grace: -1s is not in 0s..10m`},
		{func(c *Config) { c.DrainGrace = 10*time.Minute + 1 }, `drain-grace: 10m0.000000001s is not in 0s..10m`},
		{func(c *Config) { c.DatabaseURL = secret.New("mysql://user:password@host/db") }, `database-url: does not begin with postgres://`},
		{func(c *Config) { c.Driver = "docker" }, `driver: "docker" is not one of external, local`},
		{func(c *Config) { c.Driver = "" }, `driver: "" is not one of external, local`},
		{func(c *Config) { c.TokenLifetime = time.Hour - 1 }, `token-lifetime: 59m59.999999999s is shorter than 1h`},
		{func(c *Config) { c.GRPCListen, c.Driver = "x", "y" }, `grpc-listen: "x" is not of the form HOST:PORT` + "\n" + `driver: "y" is not one of external, local`},

		{func(c *Config) { c.GRPCListen, c.HTTPListen, c.OpsListen = ":0", "[::1]:80", "host.example:443" }, ""},
		{func(c *Config) { c.SupervisorSocket = "/run/gw/agent.sock" }, ""},
		{func(c *Config) { c.TLSNames = []string{"a.example", "*.a.example", "10.0.0.1", "::1"} }, ""},
		{func(c *Config) { c.DrainGrace, c.TokenLifetime, c.Driver = 10*time.Minute, time.Hour, "local" }, ""},
		{func(c *Config) { c.DatabaseURL = secret.New("postgres://u:p@h/d") }, ""},
		{func(c *Config) { c.DatabaseURL = secret.New("postgresql://u:p@h/d") }, ""},
	} {
		cfg := DefaultConfig()
		c.edit(&cfg)
		got := ""
		if err := cfg.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q\nwant %q", got, c.want)
		}
	}
}
