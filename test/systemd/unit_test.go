// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"strconv"
	"strings"
	"time"
)

// property returns a property of a unit.
func (m *machine) property(unit, name string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "--value", "--property", name, unit)
}

// instant returns a property that is an instant, on the machine's monotonic
// clock.
func (m *machine) instant(unit, name string) time.Duration {
	m.t.Helper()
	text := m.property(unit, name)
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil || usec == 0 {
		m.t.Fatalf("%s of %s is %q", name, unit, text)
	}
	return time.Duration(usec) * time.Microsecond
}

// understood fails if systemd has something to say about a unit file.
func (m *machine) understood(units ...string) {
	m.t.Helper()
	if out, err := m.try(append([]string{"systemd-analyze", "verify", "--man=no"}, units...)...); err != nil || out != "" {
		m.t.Errorf("systemd says of the units: %v\n%s", err, out)
	}
}

// restarts returns how often systemd has restarted a unit by itself.
func (m *machine) restarts(unit string) int {
	m.t.Helper()
	n, err := strconv.Atoi(m.property(unit, "NRestarts"))
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// active waits until a unit is active, and fails if it ever is failed (T13).
func (m *machine) active(limit time.Duration, unit string) {
	m.t.Helper()
	until(m.t, limit, unit+" to be active", func() (bool, string) {
		state := m.property(unit, "ActiveState")
		if state == "failed" {
			m.t.Errorf("%s has failed: %s", unit, m.property(unit, "Result"))
		}
		return state == "active", state
	})
}

// status waits until a unit's status line contains the text.
func (m *machine) status(limit time.Duration, unit, text string) {
	m.t.Helper()
	until(m.t, limit, "the status of "+unit+" to have "+strconv.Quote(text), func() (bool, string) {
		line := m.property(unit, "StatusText")
		return strings.Contains(line, text), line
	})
}

// watchdog makes the watchdog of a unit impatient, so that a test need not
// wait for the 30 s that unit files have.
func (m *machine) watchdog(unit, limit string) {
	m.t.Helper()
	m.write("/etc/systemd/system/"+unit+".d/test.conf", "[Service]\nWatchdogSec="+limit+"\n")
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "restart", unit)
	m.active(10*time.Second, unit)
}

// watchdogKills stops the main process of a unit as a bug would, and waits
// until systemd has replaced it.
func (m *machine) watchdogKills(unit string) {
	m.t.Helper()
	before := m.restarts(unit)
	m.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", unit)
	until(m.t, 20*time.Second, "the watchdog to end "+unit, func() (bool, string) {
		n := m.restarts(unit)
		return n > before, strconv.Itoa(n)
	})
	m.active(5*time.Second, unit)
	if log := m.run("journalctl", "--no-pager", "-u", unit); !strings.Contains(log, "Watchdog timeout") {
		m.t.Errorf("%s was replaced, but not because of its watchdog:\n%s", unit, log)
	}
}

// files lists what an installation could leave behind: every file but those
// of the kernel, of logs, and of programs that keep state by themselves.
func (m *machine) files() []string {
	m.t.Helper()
	return strings.Split(m.sh(`
		find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/tmp -o -path /var/log \
			-o -path /var/cache -o -path /var/lib/dpkg -o -path '/run/systemd' -o -path /run/udev -o -path /run/credentials \
			-o -path /run/log -o -path /run/dbus -o -path /etc/.pwd.lock -o -path '/etc/*-' \
			-o -path /var/lib/systemd/timers -o -path /var/lib/systemd/random-seed \) -prune -o -print
		find /run /var/lib/systemd -name '*sandbox*'
		grep -l sandbox /etc/passwd /etc/group /etc/shadow /etc/gshadow /var/lib/dpkg/status || true`), "\n")
}
