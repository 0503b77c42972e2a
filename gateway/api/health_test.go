// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// observed is an observation of three seconds before now.
func observed(now time.Time, o health.Observation) *health.Observation {
	o.Latest, o.Since = now.Add(-3*time.Second), now.Add(-time.Minute)
	return &o
}

func TestUnknownMessages(t *testing.T) {
	now := time.Now()
	want := map[health.Reason]string{
		health.SandboxStopped:         "the sandbox is stopped",
		health.SandboxNotReady:        "the sandbox is not ready",
		health.SupervisorDisconnected: "the agent of the sandbox is not connected",
		health.RuntimeReplaced:        "the agent was started anew and has not checked this service yet",
		health.ConfigurationChanged:   "the configuration has changed and was not checked yet",
		health.NotObserved:            "the agent has not checked this service yet",
		health.Stale:                  "the last check is older than 15 seconds",
		health.Inconclusive:           "the agent could not tell yet",
	}
	reasons := 0
	for r := health.NoReason + 1; r.String() != "Unknown"; r++ {
		reasons++
		h := Health(health.Answer{State: probe.Unknown, Reason: r}, false, now)
		if want[r] == "" || h.GetMessage() != want[r] || h.GetReason() != r.String() || h.GetState() != unknown {
			t.Errorf("%v: %v, want the message %q", r, h, want[r])
		}
		if h.LastCheckedTime != nil || h.LastTransitionTime != nil || h.Latency != nil || h.HttpStatusCode != nil || h.GetAddress() != "" {
			t.Errorf("%v: shows what was never observed: %v", r, h)
		}
		// With an observation it also says how old that is.
		h = Health(health.Answer{State: probe.Unknown, Reason: r, Observation: observed(now, passed)}, false, now)
		if h.GetMessage() != want[r]+"; last checked 3s ago" || h.GetHttpStatusCode() != 200 || h.GetState() != unknown {
			t.Errorf("%v with an observation: %v", r, h)
		}
	}
	if reasons != len(want) {
		t.Errorf("%d reasons, want %d", reasons, len(want))
	}
}

// A verdict goes stale although checks are made, if none of them can tell: the
// message does not say that the last check is older than it says.
func TestStaleMessageBesideChecks(t *testing.T) {
	now := time.Now()
	o := observed(now, health.Observation{Outcome: probe.Inconclusive, Reason: probe.Late, Conclusive: now.Add(-20 * time.Second)})
	h := Health(health.Answer{State: probe.Unknown, Reason: health.Stale, Observation: o}, false, now)
	if want := "the last check that could tell is older than 15 seconds; last checked 3s ago"; h.GetMessage() != want {
		t.Errorf("%q, want %q", h.GetMessage(), want)
	}
}

func TestVerdictMessages(t *testing.T) {
	const (
		stillHealthy = "healthy until three checks in a row fail; the latest: "
		noVerdict    = "no verdict until one check passes or three in a row fail; the latest: "
		stands       = "the verdict stands; the latest check could not tell: "
	)
	for _, c := range []struct {
		state     probe.State
		outcome   probe.Outcome
		reason    probe.Reason
		code      uint16
		failures  int
		readiness bool
		want      string
	}{
		{probe.Healthy, probe.Pass, probe.OK, 204, 0, true, "the readiness path answered 204"},
		{probe.Healthy, probe.Pass, probe.OK, 404, 0, false, "the service answered 404"},
		{probe.Healthy, probe.Fail, probe.Refused, 0, 2, false, stillHealthy + "the connection was refused: nothing listens on the port (2 in a row)"},
		{probe.Unknown, probe.Fail, probe.Timeout, 0, 1, true, noVerdict + "no response headers within one second (1 in a row)"},
		{probe.Unknown, probe.Fail, probe.Refused, 0, 0, false, noVerdict + "the connection was refused: nothing listens on the port"},
		{probe.Unhealthy, probe.Fail, probe.Refused, 0, 3, false, "the connection was refused: nothing listens on the port (3 checks in a row)"},
		{probe.Unhealthy, probe.Fail, probe.Timeout, 0, 4, false, "no response headers within one second (4 checks in a row)"},
		{probe.Unhealthy, probe.Fail, probe.Reset, 0, 5, false, "the connection was reset (5 checks in a row)"},
		{probe.Unhealthy, probe.Fail, probe.Closed, 0, 6, false, "the connection was closed before the response headers were complete (6 checks in a row)"},
		{probe.Unhealthy, probe.Fail, probe.NotHTTP, 0, 7, false, "what answered does not speak HTTP/1 (7 checks in a row)"},
		{probe.Unhealthy, probe.Fail, probe.HeadersTooLarge, 0, 8, false, "the response headers are larger than 64 KiB (8 checks in a row)"},
		{probe.Unhealthy, probe.Fail, probe.BadStatus, 503, 9, true, "the readiness path answered 503, which is not in 200..299 (9 checks in a row)"},
		{probe.Unhealthy, probe.Fail, probe.Unreachable, 0, 10, false, "the loopback address could not be reached (10 checks in a row)"},
		{probe.Healthy, probe.Inconclusive, probe.NoResources, 0, 0, false, stands + "the agent had no descriptor, port or memory for a connection"},
		{probe.Unhealthy, probe.Inconclusive, probe.Late, 0, 0, false, stands + "the agent was not running in time"},
		{probe.Healthy, probe.Inconclusive, probe.Suspended, 0, 0, false, stands + "the sandbox was suspended during the check"},
		{probe.Healthy, probe.Inconclusive, probe.Internal, 0, 0, false, stands + "the agent failed to check"},
		{probe.Unhealthy, probe.Fail, probe.Reason(200), 0, 3, false, "the latest check ended for a reason unknown to this gateway (3 checks in a row)"},
	} {
		now := time.Now()
		o := observed(now, health.Observation{State: c.state, Outcome: c.outcome, Reason: c.reason, Code: c.code, Failures: c.failures})
		h := Health(health.Answer{State: c.state, Observation: o}, c.readiness, now)
		if h.GetMessage() != c.want || h.GetReason() != c.reason.String() || h.GetConsecutiveFailures() != uint32(c.failures) || h.GetState() != healthStates[c.state] {
			t.Errorf("%v\nwant the message %q", h, c.want)
		}
	}
	for r := probe.OK; r.String() != "Unknown"; r++ {
		if _, known := reasonMessages[r]; !known && r != probe.OK && r != probe.BadStatus {
			t.Errorf("%v has no message", r)
		}
	}
}

func TestHealthFields(t *testing.T) {
	now := time.Now()
	o := observed(now, passed)
	o.Latency, o.Address = 1500*time.Microsecond, netip.MustParseAddr("::1")
	h := Health(health.Answer{State: probe.Healthy, Observation: o}, true, now)
	if h.GetAddress() != "::1" || h.GetLatency().AsDuration() != o.Latency || h.GetHttpStatusCode() != 200 {
		t.Errorf("%v", h)
	}
	at := func(d time.Duration) time.Time { return now.Add(d).Round(0).Truncate(time.Millisecond).UTC() }
	if got := h.GetLastCheckedTime().AsTime(); !got.Equal(at(-3 * time.Second)) {
		t.Errorf("last checked %v, want %v", got, at(-3*time.Second))
	}
	if got := h.GetLastTransitionTime().AsTime(); !got.Equal(at(-time.Minute)) {
		t.Errorf("last transition %v", got)
	}
	o.Code, o.Address, o.Outcome, o.Reason = 0, netip.Addr{}, probe.Fail, probe.Refused
	if h := Health(health.Answer{State: probe.Unhealthy, Observation: o}, true, now); h.HttpStatusCode != nil || h.GetAddress() != "" {
		t.Errorf("a refused connection has a code or an address: %v", h)
	}
}

// stepped is an instant of which the wall clock was moved meanwhile and the
// monotonic clock was not. The package time makes none: this knows its layout.
func stepped(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	const nanosecondBits = 30
	moved := at
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(by/time.Second) << nanosecondBits
	if moved.Sub(at) != 0 || moved.Round(0).Sub(at.Round(0)) != by {
		t.Fatal("the layout of time.Time has changed")
	}
	return moved
}

func TestTimesFollowTheMonotonicClock(t *testing.T) {
	then := time.Now()
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		now := stepped(t, then.Add(3*time.Second), by)
		o := passed
		o.Latest, o.Since = then, then.Add(-time.Second)
		h := Health(health.Answer{State: probe.Healthy, Observation: &o}, false, now)
		wall := now.Round(0)
		if got := wall.Sub(h.GetLastCheckedTime().AsTime()); got < 3*time.Second || got >= 3*time.Second+time.Millisecond {
			t.Errorf("stepped by %v: checked %v ago, want 3s", by, got)
		}
		if got := wall.Sub(h.GetLastTransitionTime().AsTime()); got < 4*time.Second || got >= 4*time.Second+time.Millisecond {
			t.Errorf("stepped by %v: changed %v ago, want 4s", by, got)
		}
	}
}

// Whatever an agent sends, clients are told in words of this gateway: no value
// of any field becomes text that is not printable.
func TestTextsAreTheGatewaysOwn(t *testing.T) {
	now := time.Now()
	for n := range 256 {
		for _, failures := range []int{0, 3, 1<<31 - 1} {
			o := observed(now, health.Observation{
				State: probe.State(n), Outcome: probe.Outcome(n), Reason: probe.Reason(n), Code: uint16(n * 257),
				Failures: failures, Instance: evil,
			})
			for _, a := range []health.Answer{
				{State: probe.State(n % 3), Observation: o},
				{State: probe.State(n), Reason: health.Reason(n), Observation: o},
			} {
				h := Health(a, n%2 == 0, now)
				for _, text := range []string{h.GetReason(), h.GetMessage(), h.GetAddress()} {
					if strings.ContainsFunc(text, func(r rune) bool { return !printable(r) || r > '~' }) || strings.Contains(text, evil[:1]+"\x1b") {
						t.Errorf("%d: %q", n, text)
					}
				}
				if h.GetMessage() == "" && a.Reason.String() != "Unknown" {
					t.Errorf("%d: no message: %v", n, h)
				}
				if n > 2 && h.GetState() == healthy && a.State != probe.Healthy {
					t.Errorf("%d: a state that is not known counts as healthy", n)
				}
			}
		}
	}
}

// The same function answers get and list; ages are those of the read.
func TestAgeIsThatOfTheRead(t *testing.T) {
	w := newWorld(t)
	id := w.create("web", &exposure{TargetPort: 80}).GetMetadata().GetId()
	svc := w.stored("web", "")
	for age, want := range map[time.Duration]string{0: "OK", 14 * time.Second: "OK", probe.StaleAfter: "Stale", time.Hour: "Stale"} {
		w.cache.Forget(id)
		w.cache.Connected(id, 1, 1, "one")
		at := time.Now().Add(-age)
		o := passed
		o.ServiceID, o.Instance, o.Revision, o.Latest, o.Conclusive, o.Since = svc.ID, "one", svc.Revision, at, at, at
		if !w.cache.Reported(id, 1, 1, []health.Observation{o}, map[string]bool{svc.ID: true}) {
			t.Fatal("the report was not taken")
		}
		list := must[*openshellv1.ListServicesResponse](w, &listServicesReq{Sandbox: "web"}).GetServices()
		for path, h := range map[string]*openshellv1.ServiceHealth{
			"get": w.service("web", "").GetHealth(), "list": list[0].GetHealth(),
			"expose": w.expose(&exposeReq{Sandbox: "web", TargetPort: 80}).GetHealth(),
		} {
			if h.GetReason() != want || (h.GetState() == healthy) != (want == "OK") {
				t.Errorf("%s at %v: %v, want %s", path, age, h, want)
			}
		}
	}
}

func TestGatewayHealth(t *testing.T) {
	w := newWorld(t)
	for ready, want := range map[bool]openshellv1.ServiceStatus{
		true: openshellv1.ServiceStatus_SERVICE_STATUS_HEALTHY, false: openshellv1.ServiceStatus_SERVICE_STATUS_UNHEALTHY,
	} {
		w.ready = ready
		if r := must[*openshellv1.HealthResponse](w, &openshellv1.HealthRequest{}); r.GetStatus() != want || r.GetVersion() != "1.2.3" {
			t.Errorf("ready %v: %v", ready, r)
		}
	}
}
