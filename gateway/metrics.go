// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/readiness"
)

// storeMetrics registers the latency of the store.
func storeMetrics(reg prometheus.Registerer) func(op string, d time.Duration, err error) {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sandbox_gateway_store_duration_seconds",
		Help:    "Duration of operations of the store by operation and result.",
		Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10},
	}, []string{"op", "result"})
	reg.MustRegister(h)
	return func(op string, d time.Duration, err error) {
		result := "ok"
		if err != nil {
			result = "error"
		}
		h.WithLabelValues(op, result).Observe(d.Seconds())
	}
}

// ageMetrics registers the age of what users are answered.
func ageMetrics(reg prometheus.Registerer) func(age time.Duration) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "sandbox_gateway_observation_age_seconds",
		Help:    "Age of the latest attempt behind an answer, when it was read.",
		Buckets: []float64{.5, 1, 2, 3, 4, 5, 6, 8, 10, 15, 30, 60},
	})
	reg.MustRegister(h)
	return func(age time.Duration) { h.Observe(age.Seconds()) }
}

// collector reads live state at scrape.
type collector struct {
	cache    *health.Cache
	checker  *readiness.Checker
	stored   func() int64 // services in the store
	sessions *prometheus.Desc
	services *prometheus.Desc
	ready    *prometheus.Desc
}

func newCollector(cache *health.Cache, checker *readiness.Checker, stored func() int64) *collector {
	return &collector{
		cache: cache, checker: checker, stored: stored,
		sessions: prometheus.NewDesc("sandbox_gateway_sessions", "Live sessions of agents.", nil, nil),
		services: prometheus.NewDesc("sandbox_gateway_services", "Services by the state that users are answered.", []string{"state"}, nil),
		ready:    prometheus.NewDesc("sandbox_gateway_ready", "Whether /readyz answers 200.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.sessions
	ch <- c.services
	ch <- c.ready
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	healthy, unhealthy := c.cache.Verdicts(time.Now())
	ready := 0.0
	if c.checker.Ready() {
		ready = 1
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.sessions, float64(c.cache.Counts().Live))
	gauge(c.services, float64(healthy), "healthy")
	gauge(c.services, float64(unhealthy), "unhealthy")
	gauge(c.services, float64(max(0, c.stored()-int64(healthy+unhealthy))), "unknown")
	gauge(c.ready, ready)
}

// watchMetrics registers how many calls follow services.
func watchMetrics(reg prometheus.Registerer, watches, waits func() int) {
	gauge := func(name, help string, value func() int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	gauge("sandbox_gateway_watches", "Watches of services under way.", watches)
	gauge("sandbox_gateway_waits", "Waits for a service under way.", waits)
}
