// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is one booted container.
type machine struct {
	t      *testing.T
	name   string
	cgroup string
	leader int // its process 1, as this machine numbers it
	done   chan struct{}
	out    *bytes.Buffer // of the console, to be read once done is closed
}

// script makes the cgroup of the machine look like the root of a v2 hierarchy,
// and becomes nspawn.
const script = `
cgroup=$1; shift
echo $$ >"$cgroup/cgroup.procs"
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run/systemd
exec systemd-nspawn --quiet --register=no --keep-unit --console=pipe --link-journal=no \
  --resolv-conf=off --timezone=off --volatile=overlay --system-call-filter=bpf "$@" --boot`

// cgroupRoot returns where version 2 of the cgroups is.
func cgroupRoot() string {
	const unified = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(unified); err == nil {
		return unified
	}
	return "/sys/fs/cgroup"
}

// boot starts a machine that ends with the test. Options are nspawn's.
func (w world) boot(t *testing.T, name string, options ...string) *machine {
	t.Helper()
	m := &machine{
		t: t, name: name, cgroup: filepath.Join(cgroupRoot(), w.run+"-"+name),
		done: make(chan struct{}), out: &bytes.Buffer{},
	}
	if err := os.Mkdir(m.cgroup, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--mount", "--propagation", "private", "sh", "-c", script, "sh", m.cgroup,
		"--directory=" + w.root, "--machine=" + name,
		"--bind-ro=" + w.packages + ":/" + filepath.Base(w.packages),
		"--bind-ro=" + w.previous + ":/" + filepath.Base(w.previous),
	}
	cmd := exec.Command("unshare", append(args, options...)...)
	cmd.Stdout, cmd.Stderr = m.out, m.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(m.done); cmd.Wait() }()
	t.Cleanup(func() { m.end(cmd.Process.Pid) })
	until(t, 20*time.Second, name+" to start", func() (bool, string) {
		b, err := os.ReadFile(filepath.Join(m.cgroup, "payload/init.scope/cgroup.procs"))
		first, _, _ := strings.Cut(string(b), "\n")
		m.leader, _ = strconv.Atoi(first)
		return m.leader > 0, fmt.Sprint(err)
	})
	until(t, 60*time.Second, name+" to be running", func() (bool, string) {
		out, _ := m.try("systemctl", "is-system-running", "--wait")
		return out == "running", out
	})
	return m
}

// end switches the machine off and removes its cgroups.
func (m *machine) end(nspawn int) {
	if m.t.Failed() && m.leader > 0 {
		out, _ := m.try("journalctl", "--no-pager", "--no-hostname", "-o", "short-precise", "-n", "80", "-u", "sandbox-*")
		m.t.Logf("the journal of %s:\n%s", m.name, out)
	}
	m.crash()
	select {
	case <-m.done:
	case <-time.After(10 * time.Second):
		syscall.Kill(nspawn, syscall.SIGKILL)
		<-m.done
	}
	if m.t.Failed() {
		m.t.Logf("the console of %s:\n%s", m.name, m.out)
	}
	var groups []string
	filepath.WalkDir(m.cgroup, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			groups = append(groups, path)
		}
		return nil
	})
	slices.Reverse(groups) // children first
	for _, g := range groups {
		os.Remove(g)
	}
}

// crash is a power failure: process 1 is killed, and all others with it.
func (m *machine) crash() {
	if m.leader > 0 {
		syscall.Kill(m.leader, syscall.SIGKILL)
		m.leader = 0
	}
}

// freeze stops every process of the machine; no command runs until thaw.
func (m *machine) freeze() { m.setFrozen("1") }

func (m *machine) thaw() { m.setFrozen("0") }

func (m *machine) setFrozen(to string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.cgroup, "payload", "cgroup.freeze"), []byte(to), 0); err != nil {
		m.t.Fatal(err)
	}
}

// commandTimeout bounds one command on a machine.
const commandTimeout = 2 * time.Minute

// command returns a command on the machine that ends with ctx.
func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	if m.leader == 0 {
		m.t.Fatalf("%s is switched off", m.name)
	}
	all := append([]string{
		"--target", strconv.Itoa(m.leader), "--all", "--",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
	}, args...)
	return exec.CommandContext(ctx, "nsenter", all...)
}

// try runs a command on the machine and returns what it printed, trimmed.
func (m *machine) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	out, err := m.command(ctx, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run is try that fails the test.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		m.t.Fatalf("%s: %s: %v\n%s", m.name, strings.Join(args, " "), err, out)
	}
	return out
}

// sh runs a shell script on the machine.
func (m *machine) sh(script string) string {
	m.t.Helper()
	return m.run("sh", "-ec", script)
}

// write makes a file on the machine.
func (m *machine) write(path, content string) {
	m.t.Helper()
	cmd := m.command(m.t.Context(), "sh", "-ec", `umask 077; mkdir -p "$(dirname "$1")"; cat >"$1"`, "sh", path)
	cmd.Stdin = strings.NewReader(content)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s: writing %s: %v\n%s", m.name, path, err, out)
	}
}
