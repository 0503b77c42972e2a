// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sdnotify

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, 4096)
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestNotify(t *testing.T) {
	for name, addr := range map[string]string{
		"path":     filepath.Join(t.TempDir(), "notify"),
		"abstract": "@sandbox-agent-test-" + filepath.Base(t.TempDir()) + "-" + time.Now().Format("150405.000000000"),
	} {
		t.Run(name, func(t *testing.T) {
			conn := listen(t, addr)
			n, err := New(env(map[string]string{"NOTIFY_SOCKET": addr}), os.Getpid())
			if err != nil || !n.Enabled() {
				t.Fatalf("New: %v, enabled %v", err, n.Enabled())
			}
			if err := n.Notify(Ready, "STATUS=up"); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, conn); got != "READY=1\nSTATUS=up" {
				t.Fatalf("received %q", got)
			}
		})
	}
}

// T16: the first message must not cost the later ones their address.
func TestT16EnvironmentIsKept(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "notify")
	conn := listen(t, addr)
	t.Setenv("NOTIFY_SOCKET", addr)
	t.Setenv("WATCHDOG_USEC", "3000000")
	t.Setenv("WATCHDOG_PID", "")
	n, err := New(os.Getenv, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := n.Notify(Watchdog); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, conn); got != Watchdog {
			t.Fatalf("received %q", got)
		}
		if os.Getenv("NOTIFY_SOCKET") != addr || os.Getenv("WATCHDOG_USEC") != "3000000" {
			t.Fatal("the environment was changed")
		}
	}
	if err := os.Unsetenv("WATCHDOG_USEC"); err != nil {
		t.Fatal(err)
	}
	if n.Interval() != 1500*time.Millisecond {
		t.Fatalf("Interval() = %v after the variable went away", n.Interval())
	}
}

func TestReload(t *testing.T) {
	conn := listen(t, filepath.Join(t.TempDir(), "notify"))
	n, err := New(env(map[string]string{"NOTIFY_SOCKET": conn.LocalAddr().String()}), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Reload(func() {
		if got := receive(t, conn); !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*$`).MatchString(got) {
			t.Errorf("before: received %q", got)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, conn); got != Ready {
		t.Errorf("after: received %q", got)
	}
}

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name, socket, usec, pid string
		enabled                 bool
		interval                time.Duration
		errNames                string
	}{
		{name: "nothing set"},
		{name: "watchdog of anyone", socket: "/run/n", usec: "10000000", enabled: true, interval: 5 * time.Second},
		{name: "watchdog of ours", socket: "@n", usec: "10000000", pid: "42", enabled: true, interval: 5 * time.Second},
		{name: "watchdog of another", socket: "/run/n", usec: "10000000", pid: "43", enabled: true},
		{name: "watchdog alone", usec: "2000000", interval: time.Second},
		{name: "socket only", socket: "/run/n", enabled: true},
		{name: "not microseconds", socket: "/run/n", usec: "10s", enabled: true, errNames: "WATCHDOG_USEC"},
		{name: "zero", socket: "/run/n", usec: "0", enabled: true, errNames: "WATCHDOG_USEC"},
		{name: "negative", socket: "/run/n", usec: "-1", enabled: true, errNames: "WATCHDOG_USEC"},
		{name: "too large", socket: "/run/n", usec: "9223372036854775807", enabled: true, errNames: "WATCHDOG_USEC"},
		{name: "not a pid", socket: "/run/n", usec: "1000000", pid: "me", enabled: true, errNames: "WATCHDOG_PID"},
		{name: "not an address", socket: "run/n", errNames: "NOTIFY_SOCKET"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := New(env(map[string]string{
				"NOTIFY_SOCKET": tc.socket, "WATCHDOG_USEC": tc.usec, "WATCHDOG_PID": tc.pid,
			}), 42)
			if (err != nil) != (tc.errNames != "") || err != nil && !strings.Contains(err.Error(), tc.errNames) {
				t.Errorf("error %v, want one that names %q", err, tc.errNames)
			}
			if n.Enabled() != tc.enabled || n.Interval() != tc.interval {
				t.Errorf("enabled %v, interval %v, want %v, %v", n.Enabled(), n.Interval(), tc.enabled, tc.interval)
			}
		})
	}
}

func TestWithoutServiceManager(t *testing.T) {
	var zero Notifier
	if err := zero.Notify(Ready); err != nil || zero.Enabled() || zero.Interval() != 0 {
		t.Fatalf("the zero Notifier did something: %v", err)
	}
}

func TestNobodyListens(t *testing.T) {
	dir := t.TempDir()
	n, err := New(env(map[string]string{"NOTIFY_SOCKET": filepath.Join(dir, "missing")}), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Notify(Ready); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Notify to a missing socket: %v", err)
	}
}

// A service manager that does not read costs a bounded wait.
func TestFullSocketDoesNotBlock(t *testing.T) {
	addr := filepath.Join(t.TempDir(), "notify")
	listen(t, addr)
	n, err := New(env(map[string]string{"NOTIFY_SOCKET": addr}), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 100_000 {
		if err := n.Notify(Watchdog); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.EAGAIN) {
				t.Fatalf("Notify into a full socket: %v", err)
			}
			return
		}
	}
	t.Fatal("the socket never filled")
}
