// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// HealthState is whether a service passes its check.
type HealthState int

// The zero value is unknown: whoever has no answer does not know.
const (
	HealthUnknown HealthState = iota
	HealthHealthy
	HealthUnhealthy
)

// String returns "unknown", "healthy" or "unhealthy".
func (s HealthState) String() string {
	switch s {
	case HealthHealthy:
		return "healthy"
	case HealthUnhealthy:
		return "unhealthy"
	default:
		return "unknown"
	}
}

// Health is a service's health as the gateway answered it.
type Health struct {
	State HealthState
	// Ready is what the state is about: true when the service has a readiness
	// check (it answers 2xx on its path), false when it only has to answer.
	Ready bool
	// Reason is one word of a closed list that may grow; Message one sentence
	// of the gateway's.
	Reason  string
	Message string
	// HTTPStatus is the status code of the latest attempt, 0 if it got none.
	HTTPStatus int
	// Failures in a row, as far as they count towards unhealthy.
	Failures int
	// LastChecked is when the latest attempt ended and LastTransition when the
	// state last changed, on the gateway's clock. Zero if never.
	LastChecked    time.Time
	LastTransition time.Time
	// Latency of the latest attempt, 0 if there was none.
	Latency time.Duration
	// Address is the loopback address that answered, or empty.
	Address string
}

// HealthOf reads the health in an answer. No answer, no health in it, an
// unspecified state and a state that this version does not know all are
// HealthUnknown.
func HealthOf(r *openshellv1.ServiceEndpointResponse) Health {
	h := r.GetHealth()
	out := Health{
		Ready:          r.GetEndpoint().GetReadinessCheck() != nil,
		Reason:         h.GetReason(),
		Message:        h.GetMessage(),
		HTTPStatus:     int(h.GetHttpStatusCode()),
		Failures:       int(h.GetConsecutiveFailures()),
		LastChecked:    instant(h.GetLastCheckedTime()),
		LastTransition: instant(h.GetLastTransitionTime()),
		Address:        h.GetAddress(),
	}
	if h.GetLatency().IsValid() {
		out.Latency = h.GetLatency().AsDuration()
	}
	switch h.GetState() {
	case openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY:
		out.State = HealthHealthy
	case openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY:
		out.State = HealthUnhealthy
	default:
		out.State = HealthUnknown
	}
	return out
}

// instant returns the zero time for an absent timestamp or one out of range.
func instant(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}
