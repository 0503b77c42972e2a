// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Link is the one way from a Namespace to where the test lives, and back.
type Link struct {
	Inside, Outside string // addresses of its two ends
	ns              *Namespace
	outside         string // the name of that end
}

// Direction is one of the directions of a link, or both.
type Direction int

// The directions, as seen from the namespace.
const (
	Out  Direction = 1 << iota // from the namespace
	In                         // into it
	Both = Out | In
)

// String returns "out", "in" or "both".
func (d Direction) String() string { return [...]string{"none", "out", "in", "both"}[d&Both] }

const inside = "link0"

// Connect makes a link. It has addresses of 198.18.0.0/15, which is set aside
// for tests.
func (n *Namespace) Connect(t testing.TB) *Link {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("there is no ip command: install iproute2")
	}
	var err error
	for range 20 { // others may use the same net by chance
		net := rand.IntN(1<<15) << 2
		outside := fmt.Sprintf("flt%08x", rand.Uint32())
		l := &Link{ns: n, outside: outside, Outside: address(net + 1), Inside: address(net + 2)}
		if err = l.make(outside); err == nil {
			t.Cleanup(func() { exec.Command("ip", "link", "del", outside).Run() }) // gone already if the namespace is
			return l
		}
		exec.Command("ip", "link", "del", outside).Run()
	}
	t.Fatalf("link: %v", err)
	return nil
}

func address(host int) string { return fmt.Sprintf("198.18.%d.%d", host>>8&0xff, host&0xff) }

func (l *Link) make(outside string) error {
	run := func(name string, args ...string) error {
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
		}
		return nil
	}
	if out, _ := exec.Command("ip", "-o", "route", "get", l.Inside).Output(); strings.Contains(string(out), "flt") {
		return errors.New("the net is taken")
	}
	if err := run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", path(l.ns.ns)); err != nil {
		return err
	}
	if err := run("ip", "addr", "add", l.Outside+"/30", "dev", outside); err != nil {
		return err
	}
	if err := run("ip", "link", "set", outside, "up"); err != nil {
		return err
	}
	if _, err := l.ns.Command("ip", "addr", "add", l.Inside+"/30", "dev", inside); err != nil {
		return err
	}
	_, err := l.ns.Command("ip", "link", "set", inside, "up")
	return err
}

// Drop makes the link lose all packets of a direction, from now on.
func (l *Link) Drop(t testing.TB, d Direction) { l.Lose(t, d, 100) }

// Lose makes the link lose a share of the packets of a direction, in percent,
// by chance. The other direction loses nothing.
func (l *Link) Lose(t testing.TB, d Direction, percent int) {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("there is no nft command: install nftables")
	}
	chance := ""
	if percent < 100 {
		chance = fmt.Sprintf("numgen random mod 100 < %d ", percent)
	}
	rules := emptyTable + "table inet fault {\n"
	for _, c := range []struct {
		d          Direction
		hook, name string
	}{{Out, "output", "oifname"}, {In, "input", "iifname"}} {
		if d&c.d != 0 {
			rules += fmt.Sprintf("chain %s { type filter hook %s priority 0; %s %s %scounter drop; }\n", c.hook, c.hook, c.name, inside, chance)
		}
	}
	if _, err := l.ns.feed(rules+"}\n", "nft", "-f", "-"); err != nil {
		t.Skipf("packets cannot be dropped, the kernel needs nf_tables: %v", err)
	}
}

// emptyTable removes the rules, if there are any.
const emptyTable = "table inet fault {}\ndelete table inet fault\n"

// Restore ends Drop and Lose, and returns how many packets were lost.
func (l *Link) Restore(t testing.TB) (lost int) {
	t.Helper()
	list, err := l.ns.Command("nft", "list", "table", "inet", "fault")
	if err == nil {
		_, err = l.ns.feed(emptyTable, "nft", "-f", "-")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`counter packets (\d+)`).FindAllStringSubmatch(list, -1) {
		n, _ := strconv.Atoi(m[1]) // of digits only
		lost += n
	}
	return lost
}
