// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestResolve(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"state/sandboxes/x", "state/run", "elsewhere", "bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(path string) string { return filepath.Join(root, path) }
	for _, file := range []string{"state/agent", "bin/agent", "bin/plain"} {
		if err := os.WriteFile(at(file), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(at("bin/plain"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "state", "bin/hidden": "../state/agent"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	good := Config{Dir: at("state/sandboxes"), Socket: at("state/run/s"), AgentPath: at("bin/agent")}
	want := paths{stateDir: at("state"), socket: at("state/run/s"), agent: at("bin/agent"), show: []string{at("state/run")}}
	outside := want
	outside.socket, outside.show = at("elsewhere/s"), nil
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   *paths
		err    string
	}{
		{"plain", func(*Config) {}, &want, ""},
		{"through a link", func(c *Config) { c.Dir, c.Socket = at("link/sandboxes"), at("link/run/s") }, &want, ""},
		{"socket elsewhere", func(c *Config) { c.Socket = at("elsewhere/s") }, &outside, ""},
		{"state given", func(c *Config) { c.StateDir = at("state") }, &want, ""},
		{"no Dir", func(c *Config) { c.Dir = "" }, nil, "Dir: invalid"},
		{"no socket directory", func(c *Config) { c.Socket = at("none/s") }, nil, "Socket: "},
		{"socket beside secrets", func(c *Config) { c.Socket = at("state/s") }, nil, "directory of its own"},
		{"socket beside sandboxes", func(c *Config) { c.Socket = at("state/sandboxes/s") }, nil, "directory of its own"},
		{"socket in a sandbox", func(c *Config) { c.Socket = at("state/sandboxes/x/s") }, nil, "directory of its own"},
		{"state is not above", func(c *Config) { c.StateDir = at("elsewhere") }, nil, "StateDir: invalid"},
		{"state is Dir", func(c *Config) { c.StateDir = c.Dir }, nil, "StateDir: invalid"},
		{"state is the root", func(c *Config) { c.StateDir = "/" }, nil, "StateDir: invalid"},
		{"agent in the state", func(c *Config) { c.AgentPath = at("state/agent") }, nil, "AgentPath: invalid"},
		{"agent links into the state", func(c *Config) { c.AgentPath = at("bin/hidden") }, nil, "AgentPath: invalid"},
		{"agent is not executable", func(c *Config) { c.AgentPath = at("bin/plain") }, nil, "AgentPath: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := good
			tc.change(&cfg)
			got, err := resolve(cfg)
			switch {
			case tc.want == nil:
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
			case err != nil:
				t.Error(err)
			case got.stateDir != tc.want.stateDir || got.socket != tc.want.socket || got.agent != tc.want.agent || !slices.Equal(got.show, tc.want.show):
				t.Errorf("got %+v, want %+v", got, *tc.want)
			}
		})
	}
}

func TestFindAgent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if path, err := findAgent(""); err == nil || !strings.Contains(err.Error(), "nor in PATH") {
		t.Errorf("found %q, error %v", path, err)
	}
	if err := os.WriteFile(filepath.Join(dir, agentName), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if path, err := findAgent(""); err != nil || path != filepath.Join(dir, agentName) {
		t.Errorf("found %q, error %v", path, err)
	}
}

// Nothing of the gateway's environment but PATH and HOME gets in.
func TestEnvironment(t *testing.T) {
	asked := map[string]bool{}
	getenv := func(name string) string { asked[name] = true; return "" }
	s := spec("alpha")
	s.Environment = map[string]string{"B": "2", "A": "1=1", "PATH": "/mine"}
	want := []string{"A=1=1", "B=2", "HOME=/", "PATH=/mine"}
	if got := environment(s, getenv); !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	s.Environment = nil
	if got := environment(s, getenv); variable(got, "PATH") != defaultPath {
		t.Errorf("environment %q, want the default PATH", got)
	}
	if len(asked) != 2 || !asked["PATH"] || !asked["HOME"] {
		t.Errorf("asked for %v", asked)
	}
}

func TestOrderWithoutCommand(t *testing.T) {
	o := makeOrder(Spec{Name: "alpha"}, paths{socket: "/s"}, "/d/token", os.Getenv)
	if slices.Contains(o.Argv, "--") || o.Argv[len(o.Argv)-1] != agentOps {
		t.Errorf("arguments %q", o.Argv)
	}
}

func TestExplanations(t *testing.T) {
	all := func(string) bool { return true }
	without := func(ns string) func(string) bool {
		return func(path string) bool { return path != "/proc/self/ns/"+ns }
	}
	for _, tc := range []struct {
		err  syscall.Errno
		f    facts
		want string
	}{
		{syscall.EPERM, facts{true, all}, "CAP_SYS_ADMIN"},
		{syscall.EPERM, facts{false, all}, "kernel.unprivileged_userns_clone"},
		{syscall.EACCES, facts{false, all}, "apparmor_restrict_unprivileged_userns"},
		{syscall.ENOSPC, facts{false, all}, "user.max_*_namespaces"},
		{syscall.EUSERS, facts{true, all}, "user.max_*_namespaces"},
		{syscall.EINVAL, facts{true, without("net")}, "CONFIG_NET_NS"},
		{syscall.EINVAL, facts{true, without("mnt")}, "CONFIG_NAMESPACES"},
		{syscall.EINVAL, facts{false, without("user")}, "CONFIG_USER_NS"},
		{syscall.EPERM, facts{true, without("user")}, "CAP_SYS_ADMIN"},
		{syscall.EIO, facts{true, all}, "create namespaces"},
	} {
		if got := namespaceFeature(tc.err, tc.f); !strings.Contains(got, tc.want) {
			t.Errorf("%v, root %v: %q, want %q", tc.err, tc.f.root, got, tc.want)
		}
	}
	for _, e := range []error{syscall.EPERM, syscall.ENOSYS, fmt.Errorf("x: %w", syscall.EINVAL)} {
		if err := unsupported("feature", e); !errors.Is(err, ErrUnsupported) || !errors.Is(err, e) || !strings.Contains(err.Error(), "feature") {
			t.Errorf("unsupported: %v", err)
		}
	}
	if err := unsupported("feature", syscall.ENOMEM); errors.Is(err, ErrUnsupported) {
		t.Errorf("a lack of memory is no lack of support: %v", err)
	}
}

func TestReadStatus(t *testing.T) {
	f := facts{root: false, exists: func(string) bool { return true }}
	for _, tc := range []struct {
		said string
		is   error // nil: success
		text string
	}{
		{"ready", nil, ""},
		{"", errNoAgent, ""},
		{"read", errNoAgent, ""},
		{"ready and more", errNoAgent, ""},
		{`{"Step":"lunch","Errno":1}`, errNoAgent, ""},
		{`{"Step":"proc","Errno":1,"Text":"x"}`, ErrUnsupported, "/proc"},
		{`{"Step":"cover","Errno":38,"Text":"x"}`, ErrUnsupported, "Linux 5.12"},
		{`{"Step":"cover","Errno":2,"Text":"x"}`, syscall.ENOENT, "state directory"},
		{`ready{"Step":"exec","Errno":8,"Text":"x"}`, syscall.ENOEXEC, "execute sandbox-agent"},
		{`{"Step":"order","Errno":0,"Text":"cut short"}`, nil, "cut short"},
	} {
		err := readStatus([]byte(tc.said), f)
		switch {
		case tc.is == nil && tc.text == "":
			if err != nil {
				t.Errorf("%q: %v", tc.said, err)
			}
		case err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.text):
			t.Errorf("%q: %v, want %v with %q", tc.said, err, tc.is, tc.text)
		}
	}
}

func TestLocks(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l locks
		unlock, err := l.lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.lock(t.Context(), "b") // another sandbox does not wait
		if err != nil {
			t.Fatal(err)
		}
		other()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 2)
		go func() { _, err := l.lock(ctx, "a"); got <- err }()
		testkit.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("lock with an ended context: %v", err)
		}
		go func() {
			second, err := l.lock(t.Context(), "a")
			got <- err
			second()
		}()
		testkit.Wait()
		select {
		case <-got:
			t.Error("two holders")
		default:
		}
		unlock()
		if err := <-got; err != nil {
			t.Error(err)
		}
		testkit.Wait()
		if len(l.held) != 0 {
			t.Errorf("%d entries are left", len(l.held))
		}
	})
}
