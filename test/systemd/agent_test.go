// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const agentUnit = "sandbox-agent.service"

// The life of an agent on one machine: without network, name server, gateway
// or services.
func TestAgent(t *testing.T) {
	w := newWorld(t)
	t.Parallel()
	m := w.boot(t, "agent", "--private-network")
	before := m.files()
	m.run("dpkg", "--install", w.deb(t, w.packages, "sandbox-agent"))
	m.active(5*time.Second, agentUnit)
	if got := m.run("systemctl", "is-enabled", agentUnit); got != "enabled" {
		t.Errorf("after the installation the unit is %s", got)
	}
	m.understood(agentUnit)
	m.status(10*time.Second, agentUnit, "0 services; no gateway")

	m.readyWithoutAnything()
	m.agentIsWatched()
	m.agentIsConfined()
	m.agentReloads()
	m.watchdog(agentUnit, "1s")
	m.watchdogKills(agentUnit)
	m.freezeAndThaw(agentUnit, "http://127.0.0.1:17692/livez")
	m.stopsInTime(15 * time.Second)

	m.run("rm", "-r", "/etc/systemd/system/"+agentUnit+".d", "/etc/credstore/sandbox-token")
	m.run("dpkg", "--purge", "sandbox-agent")
	m.leftNothing(before)
}

// T15: a gateway that cannot be reached, whose name cannot be looked up, holds
// nothing up.
func (m *machine) readyWithoutAnything() {
	m.t.Helper()
	m.write("/etc/credstore/sandbox-token", "not a token\n")
	m.write("/etc/sandbox-agent/config.yaml", "gateway: https://gateway.invalid:17690\nlog-format: journal\n")
	m.run("chmod", "644", "/etc/sandbox-agent/config.yaml")
	m.run("systemctl", "restart", agentUnit)
	m.active(5*time.Second, agentUnit)
	took := m.instant(agentUnit, "ActiveEnterTimestampMonotonic") - m.instant(agentUnit, "ExecMainStartTimestampMonotonic")
	m.t.Logf("ready after %v", took)
	if took > 2*time.Second {
		m.t.Errorf("READY after %v, want at most 2s", took)
	}
	m.status(10*time.Second, agentUnit, "0 services; no session")
	// A gateway that is away is no reason to be down.
	if n := m.restarts(agentUnit); n != 0 {
		m.t.Errorf("restarted %d times", n)
	}
}

func (m *machine) agentIsWatched() {
	m.t.Helper()
	metrics := m.run("curl", "-sS", "--fail", "http://127.0.0.1:17692/metrics")
	for _, want := range []string{"sandbox_agent_build_info{", "sandbox_agent_session_connected 0", "process_start_time_seconds ", "process_open_fds "} {
		if !strings.Contains(metrics, "\n"+want) {
			m.t.Errorf("the metrics lack %s", want)
		}
	}
	if out := m.run("sandbox-agent", "status"); !strings.Contains(out, "not connected") {
		m.t.Errorf("the status is\n%s", out)
	}
}

// agentIsConfined looks at the process itself: what the unit file asks for is
// what the kernel holds.
func (m *machine) agentIsConfined() {
	m.t.Helper()
	pid := m.property(agentUnit, "MainPID")
	status := m.sh("cat /proc/" + pid + "/status")
	for _, want := range []string{"CapBnd:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want) {
			m.t.Errorf("process %s lacks %q", pid, want)
		}
	}
	if strings.Contains(status, "Uid:\t0\t") {
		m.t.Error("the agent runs as root")
	}
	inside := []string{"nsenter", "--target", pid, "--mount", "--"}
	if out, err := m.try(append(inside, "sh", "-c", "true")...); err == nil || !strings.Contains(out, "ermission denied") {
		m.t.Errorf("the agent's name space executes a shell: %q, %v", out, err)
	}
	// The credential is the agent's alone.
	if mode := m.sh("stat -c '%a %U' /run/credentials/" + agentUnit + "/sandbox-token"); mode != "400 sandbox-agent" {
		m.t.Errorf("the token is %q", mode)
	}
}

// agentReloads changes level and services without a new start.
func (m *machine) agentReloads() {
	m.t.Helper()
	m.write("/etc/sandbox-agent/config.yaml", "log-format: journal\nlog-level: warn\n")
	m.run("chmod", "644", "/etc/sandbox-agent/config.yaml")
	m.run("systemctl", "restart", agentUnit)
	pid := m.property(agentUnit, "MainPID")
	m.write("/etc/sandbox-agent/config.yaml", "log-format: journal\nservice: [self=17692/livez, nobody=9]\n")
	m.run("chmod", "644", "/etc/sandbox-agent/config.yaml")
	m.run("systemctl", "reload", agentUnit)
	m.active(5*time.Second, agentUnit)
	m.status(30*time.Second, agentUnit, "2 services: 1 ready, 1 unresponsive; no gateway")
	if now := m.property(agentUnit, "MainPID"); now != pid {
		m.t.Errorf("process %s was replaced by %s", pid, now)
	}
	// Priorities reach the journal.
	m.sh("sed -i 's/^log-format.*/log-level: loud/' /etc/sandbox-agent/config.yaml")
	m.run("systemctl", "reload", agentUnit)
	until(m.t, 5*time.Second, "a warning", func() (bool, string) {
		out := m.run("journalctl", "--no-pager", "--priority=warning..warning", "-u", agentUnit)
		return strings.Contains(out, "was not reloaded"), out
	})
	m.sh("sed -i 's/^log-level.*/log-format: journal/' /etc/sandbox-agent/config.yaml")
}

// freezeAndThaw holds T13: an agent that slept longer than its watchdog allows
// is alive, or back within 5 s, ten times in a row. In even rounds systemd
// freezes the unit, in odd ones the whole machine is frozen from outside, as a
// sandbox that is paused.
func (m *machine) freezeAndThaw(unit, livez string) {
	m.t.Helper()
	for round := range 10 {
		freeze, thaw := m.freeze, m.thaw
		if round%2 == 0 {
			freeze = func() { m.run("systemctl", "freeze", unit) }
			// systemd refuses to thaw a unit that its watchdog is ending.
			thaw = func() { m.try("systemctl", "thaw", unit) }
		}
		freeze()
		asleep := time.Now()
		until(m.t, 10*time.Second, "the watchdog's time to pass", func() (bool, string) {
			return time.Since(asleep) > 1500*time.Millisecond, "frozen"
		})
		thaw()
		awake := time.Now()
		until(m.t, 5*time.Second, "an answer after the thaw", func() (bool, string) {
			out, err := m.try("curl", "-sS", "--fail", "--max-time", "1", livez)
			return err == nil && out == "ok", out
		})
		m.active(5*time.Second-time.Since(awake), unit)
	}
	m.t.Logf("%s was replaced %d times in 10 rounds", unit, m.restarts(unit))
}

// stopsInTime stops the agent: exit status 0, within the budget.
func (m *machine) stopsInTime(budget time.Duration) {
	m.t.Helper()
	began := time.Now()
	m.run("systemctl", "stop", agentUnit)
	took := time.Since(began)
	m.t.Logf("stopped after %v", took)
	if took > budget {
		m.t.Errorf("stopping took %v, want at most %v", took, budget)
	}
	if r, s := m.property(agentUnit, "Result"), m.property(agentUnit, "ExecMainStatus"); r != "success" || s != "0" {
		m.t.Errorf("after the stop: result %s, status %s", r, s)
	}
}

// leftNothing compares the files with those before the installation.
func (m *machine) leftNothing(before []string) {
	m.t.Helper()
	for _, f := range m.files() {
		if !slices.Contains(before, f) {
			m.t.Errorf("the purge left %s", f)
		}
	}
}
