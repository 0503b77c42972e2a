// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// cluster is one gateway and three sandboxes on a bridge.
type cluster struct {
	t       *testing.T
	w       world
	gateway *machine
	nodes   map[string]*machine
}

// Three sandboxes on a bridge with one gateway: installed from the previous
// packages, upgraded, crashed.
func TestThreeNodes(t *testing.T) {
	w := newWorld(t)
	t.Parallel()
	c := &cluster{t: t, w: w, nodes: make(map[string]*machine)}
	net := w.network(t)
	addr := c.bootGateway(net)
	for _, name := range []string{"n1", "n2", "n3"} {
		_, option := net.join(name)
		c.nodes[name] = c.bootNode(name, addr, option, c.credentials(name))
	}
	for name := range c.nodes {
		c.health(20*time.Second, name, "HEALTHY")
	}
	c.gateway.status(10*time.Second, gatewayUnit, "3 sessions, 3 services observed; ready")
	c.nodes["n1"].status(10*time.Second, agentUnit, "1 service: 1 ready; session up")

	c.upgradeAgent("n1")
	c.upgradeGateway()
	c.nodes["n3"].crash()
	c.health(2*time.Second, "n3", "UNKNOWN/SupervisorDisconnected")
	c.health(time.Second, "n1", "HEALTHY")
}

// bootGateway returns the address that agents dial.
func (c *cluster) bootGateway(net *network) string {
	addr, option := net.join("gw")
	m := c.w.boot(c.t, "gw", option)
	c.gateway = m
	m.run("dpkg", "--install", c.w.deb(c.t, c.w.previous, "sandbox-gateway"), c.w.deb(c.t, c.w.packages, "sandboxctl"))
	m.sh("printf 'tls-names: [" + addr + "]\\ndrain-grace: 1s\\n' >>/etc/sandbox-gateway/config.yaml")
	m.write("/etc/systemd/system/sandbox-gateway-supervisor.socket.d/address.conf", "[Socket]\nListenStream=\nListenStream="+addr+":17690\n")
	m.run("systemctl", "daemon-reload")
	m.sh("systemctl stop sandbox-gateway.service sandbox-gateway-supervisor.socket; systemctl start sandbox-gateway-supervisor.socket sandbox-gateway.service")
	m.active(10*time.Second, gatewayUnit)
	return addr
}

// credentials registers a sandbox and returns the directory of what its
// machine is given.
func (c *cluster) credentials(name string) string {
	c.t.Helper()
	m := c.gateway
	out := m.run("sandboxctl", "sandbox", "create", name, "--expose", "8080", "--expose-readiness-path", "/ready", "-o", "json")
	var created openshellv1.SandboxResponse
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(out), &created); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
	dir := c.t.TempDir()
	state := "/var/lib/sandbox-gateway/"
	for file, path := range map[string]string{
		"token": state + "sandboxes/" + created.GetSandbox().GetMetadata().GetId() + "/token",
		"ca":    state + "ca.crt",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(m.run("cat", path)+"\n"), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return dir
}

// bootNode boots a sandbox whose credentials come from whoever boots it, and
// starts a server in it.
func (c *cluster) bootNode(name, gateway, option, credentials string) *machine {
	m := c.w.boot(c.t, name, option,
		"--load-credential=sandbox-token:"+filepath.Join(credentials, "token"), "--load-credential=sandbox-ca:"+filepath.Join(credentials, "ca"))
	m.sh("mkdir -p /srv; echo ok >/srv/ready")
	m.run("systemd-run", "--quiet", "--unit=web", "busybox", "httpd", "-f", "-p", "127.0.0.1:8080", "-h", "/srv")
	m.run("dpkg", "--install", c.w.deb(c.t, c.w.previous, "sandbox-agent"))
	m.sh("echo 'gateway: https://" + gateway + ":17690' >>/etc/sandbox-agent/config.yaml")
	m.run("systemctl", "restart", agentUnit)
	m.active(5*time.Second, agentUnit)
	return m
}

// health waits until the gateway says of a node's service what is wanted.
func (c *cluster) health(limit time.Duration, node, want string) {
	c.t.Helper()
	until(c.t, limit, node+" to be "+want, func() (bool, string) {
		out, err := c.gateway.try("sandboxctl", "service", "get", node, "-o", "json")
		if err != nil {
			return false, out
		}
		var r openshellv1.ServiceEndpointResponse
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(out), &r); err != nil {
			return false, err.Error()
		}
		got := kit.Health(r.GetHealth())
		return got == want, got
	})
}

// agentStatus is what `sandbox-agent status -o json` says.
type agentStatus struct {
	Version string
	Gateway struct{ Connected bool }
}

func (m *machine) agentStatus() (s agentStatus, err error) {
	out, err := m.try("sandbox-agent", "status", "-o", "json")
	if err != nil {
		return s, fmt.Errorf("%w: %s", err, out)
	}
	return s, json.Unmarshal([]byte(out), &s)
}

// upgrade installs a package on m while it watches the session of node. It
// returns how long that was away at most, and fails if the session never was.
func (c *cluster) upgrade(m *machine, command string, node *machine) time.Duration {
	c.t.Helper()
	config := "/etc/" + command + "/config.yaml"
	before := m.run("cat", config)
	deb := c.w.deb(c.t, c.w.packages, command)
	installed := make(chan error, 1)
	go func() {
		out, err := m.try("dpkg", "--install", deb)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
		installed <- err
	}()
	var away, longest time.Duration
	left := time.Now() // when the session was seen last
	done := false
	until(c.t, commandTimeout, "the session to be back after the upgrade", func() (bool, string) {
		if s, err := node.agentStatus(); err == nil && s.Gateway.Connected {
			longest, left = max(longest, away), time.Now()
			away = 0
		} else {
			away = time.Since(left)
		}
		select {
		case err := <-installed:
			if err != nil {
				c.t.Error(err)
			}
			done = true
		default:
		}
		return done && away == 0, fmt.Sprintf("away for %v", away)
	})
	if after := m.run("cat", config); after != before {
		c.t.Errorf("the upgrade changed %s:\n%s", config, after)
	}
	return longest
}

// maxAway is how long a session may be away over an upgrade.
const maxAway = 2 * time.Second

func (c *cluster) upgradeAgent(name string) {
	c.t.Helper()
	m := c.nodes[name]
	old, err := m.agentStatus()
	if err != nil {
		c.t.Fatal(err)
	}
	away := c.upgrade(m, "sandbox-agent", m)
	c.t.Logf("upgrade of an agent: the session was away for %v", away)
	if s, err := m.agentStatus(); err != nil || s.Version == old.Version {
		c.t.Errorf("after the upgrade the agent is of version %s, was %s (%v)", s.Version, old.Version, err)
	}
	if away > maxAway {
		c.t.Errorf("the session was away for %v, want at most %v", away, maxAway)
	}
	c.health(8*time.Second, name, "HEALTHY")
}

func (c *cluster) upgradeGateway() {
	c.t.Helper()
	pid := c.gateway.property(gatewayUnit, "MainPID")
	away := c.upgrade(c.gateway, "sandbox-gateway", c.nodes["n2"])
	c.t.Logf("upgrade of the gateway: a session was away for %v", away)
	if now := c.gateway.property(gatewayUnit, "MainPID"); now == pid {
		c.t.Error("the upgrade left the old gateway running")
	}
	if away > maxAway {
		c.t.Errorf("the session was away for %v, want at most %v", away, maxAway)
	}
	for name := range c.nodes {
		c.health(8*time.Second, name, "HEALTHY")
	}
	if out := c.gateway.run("sandboxctl", "gateway", "status"); strings.Contains(out, "Version:   0.0.1") {
		c.t.Errorf("after the upgrade\n%s", out)
	}
}
