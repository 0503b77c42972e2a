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

// collector reads live state at scrape.
type collector struct {
	cache    *health.Cache
	checker  *readiness.Checker
	sessions *prometheus.Desc
	observed *prometheus.Desc
	ready    *prometheus.Desc
}

func newCollector(cache *health.Cache, checker *readiness.Checker) *collector {
	return &collector{
		cache: cache, checker: checker,
		sessions: prometheus.NewDesc("sandbox_gateway_sessions", "Live sessions of agents.", nil, nil),
		observed: prometheus.NewDesc("sandbox_gateway_observed_services", "Services of which the cache holds an observation, fresh or not.", nil, nil),
		ready:    prometheus.NewDesc("sandbox_gateway_ready", "Whether /readyz answers 200.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.sessions
	ch <- c.observed
	ch <- c.ready
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	n := c.cache.Counts()
	ready := 0.0
	if c.checker.Ready() {
		ready = 1
	}
	ch <- prometheus.MustNewConstMetric(c.sessions, prometheus.GaugeValue, float64(n.Live))
	ch <- prometheus.MustNewConstMetric(c.observed, prometheus.GaugeValue, float64(n.Observations))
	ch <- prometheus.MustNewConstMetric(c.ready, prometheus.GaugeValue, ready)
}
