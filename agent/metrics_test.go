// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// series renders what a registry has: name{label values} value, sorted.
// It lints them too, unless there are so many that comparing each with each
// takes seconds.
func series(t *testing.T, reg prometheus.Gatherer) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			name := fmt.Sprintf("%s{%s}", strings.TrimPrefix(f.GetName(), "sandbox_agent_"), strings.Join(labels, ","))
			switch {
			case m.GetHistogram() != nil:
				h := m.GetHistogram()
				var counts []string
				for _, b := range h.GetBucket() {
					counts = append(counts, fmt.Sprint(b.GetCumulativeCount()))
				}
				out = append(out, fmt.Sprintf("%s %d %.3f %s", name, h.GetSampleCount(), h.GetSampleSum(), strings.Join(counts, " ")))
			case m.GetGauge() != nil:
				out = append(out, fmt.Sprintf("%s %v", name, m.GetGauge().GetValue()))
			default:
				out = append(out, fmt.Sprintf("%s %v", name, m.GetCounter().GetValue()))
			}
		}
	}
	if len(out) < 1000 {
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v %v", problems, err)
		}
	}
	return out
}

func newMetrics(t *testing.T) (*collector, *report.Tracker, *prometheus.Registry) {
	tracker := report.NewTracker()
	l := &link{tracker: tracker, logger: testkit.Logger(t), counts: &counts{}}
	c := newCollector(tracker, l, l.counts)
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	return c, tracker, reg
}

// Whoever is alerted of lost sessions is not of agents that work alone.
func TestNoSessionSeriesWithoutGateway(t *testing.T) {
	c, _, reg := newMetrics(t)
	has := func() bool {
		return slices.ContainsFunc(series(t, reg), func(s string) bool { return strings.HasPrefix(s, "session_connected") })
	}
	if has() {
		t.Error("an agent alone is not connected")
	}
	c.link.begin(time.Now())
	if !has() {
		t.Error("an agent with a gateway does not say whether it is connected")
	}
}

func TestMetricsOfServices(t *testing.T) {
	c, tracker, reg := newMetrics(t)
	c.link.begin(time.Now())
	web, api := svc("web", 1, 8080), svc("", 2, 9090)
	tracker.Services([]probe.Service{web, api}, time.Now())
	judge := probe.NewJudge(time.Now())
	for _, took := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 1500 * time.Millisecond} {
		now := time.Now()
		a := probe.Attempt{Outcome: probe.Pass, Start: now, End: now, Latency: took}
		c.attempted(web, a)
		v, changed := judge.Observe(a, false)
		tracker.Observed(web, v, changed)
	}
	c.attempted(web, probe.Attempt{Outcome: probe.Fail, Latency: 200 * time.Millisecond})
	// Of what could not be observed, neither is a duration: not even begun, and late.
	c.attempted(web, probe.Attempt{Outcome: probe.Inconclusive})
	c.attempted(web, probe.Attempt{Outcome: probe.Inconclusive, Latency: 9 * time.Second})
	got := series(t, reg)
	for _, want := range []string{
		"service_healthy{9090,} NaN", "service_healthy{8080,web} 1",
		"probe_total{pass,8080,web} 3", "probe_total{fail,8080,web} 1", "probe_total{inconclusive,8080,web} 2",
		"probe_duration_seconds{8080,web} 4 1.731 1 1 1 1 1 2 2 3 3 3",
		"session_connected{} 0", "session_dials_total{} 0", "reports_total{} 0", "report_bytes_total{} 0", "round_lateness_seconds{} 0",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no series %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
	bad := probe.Attempt{Outcome: probe.Fail, Start: time.Now(), End: time.Now()}
	for range 3 {
		v, changed := judge.Observe(bad, false)
		tracker.Observed(web, v, changed)
	}
	if got := series(t, reg); !slices.Contains(got, "service_healthy{8080,web} 0") {
		t.Errorf("an unhealthy service: %q", got)
	}
}

// Series of a service go with it; a changed configuration is another service.
func TestSeriesGoWithTheService(t *testing.T) {
	c, tracker, reg := newMetrics(t)
	web, gone := svc("web", 1, 8080), svc("gone", 2, 80)
	tracker.Services([]probe.Service{web, gone}, time.Now())
	c.attempted(web, probe.Attempt{Outcome: probe.Pass})
	c.attempted(gone, probe.Attempt{Outcome: probe.Pass})
	changed := svc("web", 3, 8081)
	tracker.Services([]probe.Service{changed}, time.Now())
	got := strings.Join(series(t, reg), "\n")
	if strings.Contains(got, "gone") || strings.Contains(got, "8080") || strings.Contains(got, "probe_total") || !strings.Contains(got, "service_healthy{8081,web} NaN") {
		t.Errorf("series\n%s", got)
	}
	tracker.Services([]probe.Service{web}, time.Now())
	c.attempted(web, probe.Attempt{Outcome: probe.Pass})
	if got := series(t, reg); !slices.Contains(got, "probe_total{pass,8080,web} 1") {
		t.Errorf("a service that is back: %q", got)
	}
}

// Nobody may ever scrape: what is kept does not grow with the changes.
func TestCountersOfTheGoneAreForgotten(t *testing.T) {
	c, tracker, _ := newMetrics(t)
	for i := range uint64(1000) {
		s := svc("web", i+1, 80)
		tracker.Services([]probe.Service{s}, time.Now())
		c.attempted(s, probe.Attempt{Outcome: probe.Pass})
	}
	if n := len(c.services); n != 1 {
		t.Errorf("%d services are counted, there is 1", n)
	}
}

// The greatest lateness counts, once.
func TestLateness(t *testing.T) {
	c, _, reg := newMetrics(t)
	for _, late := range []time.Duration{0, 300 * time.Millisecond, time.Millisecond} {
		c.rounded(late)
	}
	if got := series(t, reg); !slices.Contains(got, "round_lateness_seconds{} 0.3") {
		t.Errorf("%q", got)
	}
	if got := series(t, reg); !slices.Contains(got, "round_lateness_seconds{} 0") {
		t.Errorf("%q", got)
	}
}

// A verdict that is stale is unknown here too, whoever last wrote it (T09).
func TestAStaleVerdictIsNaN(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c, tracker, _ := newMetrics(t)
		web := svc("web", 1, 80)
		tracker.Services([]probe.Service{web}, time.Now())
		now := time.Now()
		v, _ := probe.NewJudge(now).Observe(probe.Attempt{Outcome: probe.Pass, Start: now, End: now}, false)
		tracker.Observed(web, v, true)
		healthy := func() float64 {
			ch := make(chan prometheus.Metric, 100)
			c.Collect(ch)
			reg := prometheus.NewRegistry()
			reg.MustRegister(c)
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == "sandbox_agent_service_healthy" {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			return -1
		}
		testkit.Advance(14900 * time.Millisecond)
		if got := healthy(); got != 1 {
			t.Errorf("14.9 s after the attempt: %v", got)
		}
		testkit.Advance(200 * time.Millisecond)
		if got := healthy(); !math.IsNaN(got) {
			t.Errorf("15.1 s after the attempt: %v", got)
		}
	})
}

// 10,000 services that came and went leave no series behind, and nothing in
// memory, whether somebody scrapes or not.
func TestChurnLeavesNoSeries(t *testing.T) {
	c, tracker, reg := newMetrics(t)
	before := len(series(t, reg))
	for first := uint64(1); first <= 10_000; first += probe.MaxServices {
		var services []probe.Service
		for i := range uint64(probe.MaxServices) {
			services = append(services, svc(fmt.Sprint("s", first+i), first+i, uint16(1+i)))
		}
		tracker.Services(services, time.Now())
		for _, s := range services {
			c.attempted(s, probe.Attempt{Outcome: probe.Pass})
		}
	}
	if got := len(series(t, reg)); got <= before {
		t.Fatal("the present services have no series: this test shows nothing")
	}
	tracker.Services(nil, time.Now())
	if got := len(series(t, reg)); got != before {
		t.Errorf("%d series are left, %d before", got, before)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.services); n != 0 {
		t.Errorf("%d services are still counted", n)
	}
}
