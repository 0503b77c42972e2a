// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// network is a bridge in a name space of its own, and a name space for each
// machine on it. This machine's network is not touched.
type network struct {
	t     *testing.T
	run   string
	nodes int
}

func (w world) network(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, run: w.run}
	n.space("bridge")
	n.ip("-n", n.name("bridge"), "link", "add", "br0", "type", "bridge")
	n.ip("-n", n.name("bridge"), "link", "set", "br0", "up")
	return n
}

func (n *network) name(node string) string { return n.run + "-" + node }

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (n *network) space(node string) {
	n.t.Helper()
	n.ip("netns", "add", n.name(node))
	n.t.Cleanup(func() { exec.Command("ip", "netns", "del", n.name(node)).Run() })
}

// join makes the name space of a node on the bridge. It returns its address and
// the option with which the node boots into it.
func (n *network) join(node string) (addr, option string) {
	n.t.Helper()
	n.nodes++
	addr = fmt.Sprintf("10.77.0.%d", n.nodes)
	space, port := n.name(node), fmt.Sprintf("p%d", n.nodes)
	n.space(node)
	n.ip("-n", space, "link", "set", "lo", "up")
	n.ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", n.name("bridge"))
	n.ip("-n", n.name("bridge"), "link", "set", port, "master", "br0", "up")
	n.ip("-n", space, "address", "add", addr+"/24", "dev", "eth0")
	n.ip("-n", space, "link", "set", "eth0", "up")
	return addr, "--network-namespace-path=/run/netns/" + space
}
