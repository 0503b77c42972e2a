// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what happens to sessions. No label holds a name.
type Metrics struct {
	handshakes   *prometheus.CounterVec
	conflicts    prometheus.Counter
	ends         *prometheus.CounterVec
	reports      *prometheus.CounterVec
	observations *prometheus.CounterVec
	relays       *prometheus.CounterVec
	relaysOpen   prometheus.Gauge
}

var handshakeResults = map[int]string{
	http.StatusSwitchingProtocols: "accepted",
	http.StatusBadRequest:         "bad_request",
	http.StatusMethodNotAllowed:   "bad_request",
	http.StatusUnauthorized:       "unauthorized",
	http.StatusForbidden:          "forbidden",
	http.StatusConflict:           "conflict",
	http.StatusUpgradeRequired:    "upgrade_required",
	http.StatusServiceUnavailable: "unavailable",
}

// NewMetrics registers the metrics of sessions.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_gateway_handshakes_total",
			Help: "Handshakes of agents by result.",
		}, []string{"result"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sandbox_gateway_identity_conflicts_total",
			Help: "Times that two agents claimed one sandbox.",
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_gateway_sessions_ended_total",
			Help: "Sessions that have ended by why.",
		}, []string{"reason"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_gateway_reports_total",
			Help: "Reports of agents by what became of them.",
		}, []string{"result"}),
		observations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sandbox_gateway_observations_total",
			Help: "Observations in reports by outcome; unknown_service and unproven ones were left out.",
		}, []string{"outcome"}),
	}
	m.relays = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbox_gateway_relays_total",
		Help: "Connections to services by how they began.",
	}, []string{"result"})
	m.relaysOpen = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sandbox_gateway_relays",
		Help: "Connections to services that are open.",
	})
	for _, result := range relayResults {
		m.relays.WithLabelValues(result)
	}
	for _, result := range []string{relayNoSession, relayNoAnswer, relayBroken} {
		m.relays.WithLabelValues(result)
	}
	for _, result := range handshakeResults {
		m.handshakes.WithLabelValues(result)
	}
	for _, reason := range []string{"silent", "displaced", "protocol", "stalled", "closed", "lost"} {
		m.ends.WithLabelValues(reason)
	}
	for _, result := range []string{"accepted", "superseded", "invalid", "too_large"} {
		m.reports.WithLabelValues(result)
	}
	for _, outcome := range []string{"pass", "fail", "inconclusive", "unknown_service", "unproven"} {
		m.observations.WithLabelValues(outcome)
	}
	reg.MustRegister(m.handshakes, m.conflicts, m.ends, m.reports, m.observations, m.relays, m.relaysOpen)
	return m
}

func (m *Metrics) handshake(status int) {
	result, ok := handshakeResults[status]
	if !ok {
		result = "bad_request"
	}
	m.handshakes.WithLabelValues(result).Inc()
}

func (m *Metrics) ended(reason string)        { m.ends.WithLabelValues(reason).Inc() }
func (m *Metrics) report(result string)       { m.reports.WithLabelValues(result).Inc() }
func (m *Metrics) observation(outcome string) { m.observations.WithLabelValues(outcome).Inc() }
