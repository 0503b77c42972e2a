// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const gatewayUnit = "sandbox-gateway.service"

// sockets are those that systemd holds for the gateway.
var sockets = []string{
	"sandbox-gateway-grpc.socket", "sandbox-gateway-http.socket", "sandbox-gateway-supervisor.socket",
	"sandbox-gateway-local.socket", "sandbox-gateway-ops.socket",
}

// The life of a gateway on one machine.
func TestGateway(t *testing.T) {
	w := newWorld(t)
	t.Parallel()
	m := w.boot(t, "gateway", "--private-network")
	before := m.files()
	m.run("dpkg", "--install", w.deb(t, w.packages, "sandbox-gateway"), w.deb(t, w.packages, "sandboxctl"))
	m.active(5*time.Second, gatewayUnit)
	for _, unit := range append([]string{gatewayUnit}, sockets...) {
		if got := m.run("systemctl", "is-enabled", unit); got != "enabled" {
			t.Errorf("after the installation %s is %s", unit, got)
		}
	}
	m.understood(append([]string{gatewayUnit}, sockets...)...)
	m.status(10*time.Second, gatewayUnit, "0 sessions, 0 services observed; ready")
	if out := m.run("sandboxctl", "gateway", "status"); !strings.Contains(out, "Healthy") {
		t.Errorf("gateway status says\n%s", out)
	}
	if out := m.run("curl", "-sS", "--fail", "http://127.0.0.1:17691/metrics"); !strings.Contains(out, "\nsandbox_gateway_ready 1") {
		t.Errorf("the metrics lack readiness:\n%s", out)
	}
	m.stopsGracefully()

	m.write("/etc/systemd/system/"+gatewayUnit+".d/grace.conf", "[Service]\nEnvironment=SANDBOX_GATEWAY_DRAIN_GRACE=1s\n")
	m.watchdog(gatewayUnit, "2s")
	m.answersAll("0", func() {
		for range 3 {
			m.run("systemctl", "reload", gatewayUnit)
			m.run("systemctl", "restart", gatewayUnit)
		}
	})
	// What a gateway had accepted when it was killed is lost (an empty reply or
	// a reset); nobody is refused.
	m.answersAll("0 52 56", m.failsForAWhile)
	m.watchdogKills(gatewayUnit)

	m.run("rm", "-r", "/etc/systemd/system/"+gatewayUnit+".d")
	m.run("dpkg", "--purge", "sandbox-gateway", "sandboxctl")
	m.leftNothing(before)
}

// stopsGracefully stops the gateway with the default grace: inside
// TimeoutStopSec, with status 0, and nothing starts it again.
func (m *machine) stopsGracefully() {
	m.t.Helper()
	began := time.Now()
	m.run(append([]string{"systemctl", "stop", gatewayUnit}, sockets...)...)
	took := time.Since(began)
	m.t.Logf("stopped after %v", took)
	if took < 25*time.Second || took > 70*time.Second {
		m.t.Errorf("stopping took %v, want the grace of 25s and at most 70s", took)
	}
	if r, s := m.property(gatewayUnit, "Result"), m.property(gatewayUnit, "ExecMainStatus"); r != "success" || s != "0" {
		m.t.Errorf("after the stop: result %s, status %s", r, s)
	}
	m.run(append([]string{"systemctl", "start", gatewayUnit}, sockets...)...)
	m.active(10*time.Second, gatewayUnit)
}

// failsForAWhile gives the gateway a configuration that it refuses: it tries
// again until somebody mends it, and the sockets stay.
func (m *machine) failsForAWhile() {
	m.t.Helper()
	m.sh("echo 'log-level: loud' >>/etc/sandbox-gateway/config.yaml")
	before := m.restarts(gatewayUnit)
	m.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", gatewayUnit)
	until(m.t, 30*time.Second, "five attempts to start", func() (bool, string) {
		n := m.restarts(gatewayUnit)
		return n >= before+5, m.property(gatewayUnit, "SubState")
	})
	m.sh("sed -i '/loud/d' /etc/sandbox-gateway/config.yaml")
	m.active(10*time.Second, gatewayUnit)
	for _, s := range sockets {
		if state := m.property(s, "ActiveState"); state != "active" {
			m.t.Errorf("%s is %s", s, state)
		}
	}
}

// answersAll asks one question after the other over new connections while f
// runs. Every one must end with one of the given exit statuses of curl.
func (m *machine) answersAll(statuses string, f func()) {
	m.t.Helper()
	const ask = `
		n=0
		while [ -e /run/asking ]; do
			curl -sS --max-time 30 -o /dev/null http://127.0.0.1:17680/livez
			status=$?
			case " $1 " in *" $status "*) ;; *) echo "$(date +%T.%N): question $n failed: $status" ;; esac
			n=$((n + 1))
		done
		echo "asked $n"`
	m.run("touch", "/run/asking")
	ctx, cancel := context.WithTimeout(m.t.Context(), commandTimeout)
	defer cancel()
	asking := m.command(ctx, "sh", "-c", ask, "sh", statuses)
	type result struct {
		out []byte
		err error
	}
	answers := make(chan result, 1)
	go func(c *exec.Cmd) {
		out, err := c.CombinedOutput()
		answers <- result{out, err}
	}(asking)
	f()
	m.run("rm", "/run/asking")
	r := <-answers
	if r.err != nil || strings.Contains(string(r.out), "failed") || strings.Contains(string(r.out), "asked 0") {
		m.t.Errorf("%v\n%s", r.err, r.out)
	}
	m.t.Logf("%s", r.out)
}
