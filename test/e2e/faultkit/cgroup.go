// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// hierarchy is where a kind of control group can be made.
type hierarchy struct {
	mount   string
	version int
}

// Group is a control group of the test's own. Processes that its processes
// start are in it too.
type Group struct {
	dir     string
	home    string // where processes go when it ends
	version int
}

// NewFreezer returns a group that can be frozen.
func NewFreezer(t testing.TB) *Group {
	t.Helper()
	g := newGroup(t, "cgroup.freeze", []hierarchy{{"/sys/fs/cgroup", 2}, {"/sys/fs/cgroup/unified", 2}})
	if g == nil {
		t.Skip("control groups cannot be frozen here: the kernel needs cgroup v2, mounted writable")
	}
	t.Cleanup(func() { g.write("cgroup.freeze", "0") }) // before the processes are moved
	return g
}

// NewThrottle returns a group whose processes together get a share of one CPU,
// in percent.
func NewThrottle(t testing.TB, percent int) *Group {
	t.Helper()
	const period = 100_000 // microseconds
	g := newGroup(t, "cpu.max", []hierarchy{{"/sys/fs/cgroup", 2}})
	var err error
	if g != nil {
		err = g.write("cpu.max", fmt.Sprintf("%d %d", percent*period/100, period))
	} else if g = newGroup(t, "cpu.cfs_quota_us", []hierarchy{{"/sys/fs/cgroup/cpu", 1}, {"/sys/fs/cgroup/cpu,cpuacct", 1}}); g != nil {
		err = errors.Join(g.write("cpu.cfs_period_us", strconv.Itoa(period)), g.write("cpu.cfs_quota_us", strconv.Itoa(percent*period/100)))
	}
	if g == nil || err != nil {
		t.Skipf("CPU time cannot be limited here, the kernel needs the cpu controller, mounted writable: %v", err)
	}
	return g
}

// newGroup makes a group that has the given file, or returns nil.
func newGroup(t testing.TB, file string, places []hierarchy) *Group {
	t.Helper()
	for _, h := range places {
		home := filepath.Join(h.mount, membership(h))
		dir, err := os.MkdirTemp(home, fmt.Sprintf("fault-%d-", os.Getpid()))
		if err != nil {
			continue
		}
		g := &Group{dir: dir, home: home, version: h.version}
		t.Cleanup(func() { g.remove(t) })
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return g
		}
	}
	return nil
}

// membership is where in a hierarchy this process is.
func membership(h hierarchy) string {
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		unified := parts[0] == "0" && parts[1] == ""
		if h.version == 2 && unified || h.version == 1 && strings.Contains(","+parts[1]+",", ",cpu,") {
			return parts[2]
		}
	}
	return "/"
}

func (g *Group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0o644)
}

// Add moves processes into the group.
func (g *Group) Add(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := g.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
			t.Fatalf("control group: %v", err)
		}
	}
}

// Freeze returns once all processes of the group stand still. Thaw ends that.
func (g *Group) Freeze(t testing.TB) {
	t.Helper()
	if err := g.write("cgroup.freeze", "1"); err != nil {
		t.Fatalf("freeze: %v", err)
	}
	await(t, "a control group to freeze", func() bool { return g.event("frozen 1") })
}

// Thaw ends Freeze.
func (g *Group) Thaw(t testing.TB) {
	t.Helper()
	if err := g.write("cgroup.freeze", "0"); err != nil {
		t.Fatalf("thaw: %v", err)
	}
	await(t, "a control group to thaw", func() bool { return g.event("frozen 0") })
}

func (g *Group) event(line string) bool {
	text, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
	return strings.Contains(string(text), line)
}

// remove sends the processes that are left back to where the group was made.
func (g *Group) remove(t testing.TB) {
	await(t, "a control group to go", func() bool {
		text, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(text)) {
			os.WriteFile(filepath.Join(g.home, "cgroup.procs"), []byte(pid), 0o644) // it may have ended
		}
		err := syscall.Rmdir(g.dir)
		return err == nil || errors.Is(err, syscall.ENOENT)
	})
}
