// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// counts are what the agent counts of its link and of itself.
type counts struct {
	dials, reports, reportBytes atomic.Uint64
	failures                    failures
	suspensions                 atomic.Uint64
	suspended                   atomic.Int64 // time.Duration in all
}

// buckets of the duration of attempts, in seconds; the last is the bound.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

// attempts counts the attempts of one service since it was configured.
type attempts struct {
	outcomes  [4]uint64 // by probe.Outcome
	sum       float64   // of pass and fail
	histogram []uint64  // of pass and fail, by bucket, not cumulative
}

// collector reads live state at scrape. Series of a service go with it.
type collector struct {
	tracker *report.Tracker
	link    *link
	counts  *counts

	mu       sync.Mutex
	services map[uint64]*attempts // by revision
	late     time.Duration        // greatest lateness of a round since the last scrape
	round    time.Time            // when the last round began, or the agent was made

	healthy, probes, duration, session, dials, reports, bytes, lateness *prometheus.Desc
	failed, suspensions, suspended                                      *prometheus.Desc
}

func newCollector(tracker *report.Tracker, l *link, c *counts) *collector {
	service := []string{"service", "port"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sandbox_agent_"+name, help, labels, nil)
	}
	return &collector{
		tracker: tracker, link: l, counts: c, services: make(map[uint64]*attempts), round: time.Now(),
		healthy:  desc("service_healthy", "1 healthy, 0 unhealthy, NaN unknown.", service...),
		probes:   desc("probe_total", "Attempts by outcome.", append(service, "outcome")...),
		duration: desc("probe_duration_seconds", "Duration of attempts that passed or failed.", service...),
		session:  desc("session_connected", "Whether a session with the gateway is live; absent without a gateway."),
		dials:    desc("session_dials_total", "Sessions that were dialled, in vain or not."),
		reports:  desc("reports_total", "Reports sent."),
		bytes:    desc("report_bytes_total", "Bytes of the reports sent, before framing and encryption."),
		lateness: desc("round_lateness_seconds", "Greatest lateness of a round of attempts since the last scrape."),

		failed:      desc("session_failures_total", "Dials that failed and sessions that ended, by reason; clock is a certificate that is not valid yet, or not any more, by this clock.", "reason"),
		suspensions: desc("suspensions_total", "Times that the agent was not running for seconds: frozen, or its machine asleep."),
		suspended:   desc("suspended_seconds_total", "How long the agent was not running in all suspensions."),
	}
}

// attempted counts one attempt.
func (c *collector) attempted(s probe.Service, a probe.Attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.services[s.Revision]
	if n == nil {
		c.prune(c.tracker.Snapshot()) // nobody may ever scrape
		n = &attempts{histogram: make([]uint64, len(buckets))}
		c.services[s.Revision] = n
	}
	n.outcomes[a.Outcome]++
	if a.Outcome != probe.Pass && a.Outcome != probe.Fail {
		return // how long this process could not observe is no duration of the service
	}
	n.sum += a.Latency.Seconds()
	for i, b := range buckets {
		if a.Latency.Seconds() <= b {
			n.histogram[i]++
			break
		}
	}
}

// prune forgets the services that are gone. A service is in the snapshot before
// its first attempt ends.
func (c *collector) prune(snap report.Snapshot) {
	present := make(map[uint64]bool, len(snap.Entries))
	for _, e := range snap.Entries {
		present[e.Service.Revision] = true
	}
	for revision := range c.services {
		if !present[revision] {
			delete(c.services, revision)
		}
	}
}

// rounded takes note of how late a round began.
func (c *collector) rounded(late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = max(c.late, late)
	c.round = time.Now()
}

// sinceRound returns how long ago the last round began.
func (c *collector) sinceRound(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.round)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.healthy, c.probes, c.duration, c.session, c.dials, c.reports, c.bytes, c.lateness, c.failed, c.suspensions, c.suspended} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	snap := c.tracker.Snapshot()
	now := time.Now()
	c.prune(snap)
	for _, e := range snap.Entries {
		c.collectService(ch, e, now)
	}
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	if live, since, _ := c.link.status(); !since.IsZero() { // an agent alone has no session to lose
		connected := 0.0
		if live {
			connected = 1
		}
		gauge(c.session, connected)
	}
	gauge(c.lateness, c.late.Seconds())
	c.late = 0
	count(c.dials, c.counts.dials.Load())
	count(c.reports, c.counts.reports.Load())
	count(c.bytes, c.counts.reportBytes.Load())
	for why, name := range failureNames {
		count(c.failed, c.counts.failures[why].Load(), name)
	}
	count(c.suspensions, c.counts.suspensions.Load())
	ch <- prometheus.MustNewConstMetric(c.suspended, prometheus.CounterValue, time.Duration(c.counts.suspended.Load()).Seconds())
}

func (c *collector) collectService(ch chan<- prometheus.Metric, e report.Entry, now time.Time) {
	labels := []string{e.Service.Name, strconv.Itoa(int(e.Service.Target.Port))}
	healthy := math.NaN()
	switch e.Verdict.StateAt(now) {
	case probe.Healthy:
		healthy = 1
	case probe.Unhealthy:
		healthy = 0
	}
	ch <- prometheus.MustNewConstMetric(c.healthy, prometheus.GaugeValue, healthy, labels...)
	n := c.services[e.Service.Revision]
	if n == nil {
		return
	}
	for o, label := range map[probe.Outcome]string{probe.Pass: "pass", probe.Fail: "fail", probe.Inconclusive: "inconclusive"} {
		ch <- prometheus.MustNewConstMetric(c.probes, prometheus.CounterValue, float64(n.outcomes[o]), append(labels, label)...)
	}
	cumulative := make(map[float64]uint64, len(buckets))
	var sum uint64
	for i, b := range buckets {
		sum += n.histogram[i]
		cumulative[b] = sum
	}
	ch <- prometheus.MustNewConstHistogram(c.duration, n.outcomes[probe.Pass]+n.outcomes[probe.Fail], n.sum, cumulative, labels...)
}
