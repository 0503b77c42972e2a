// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"regexp"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// Only the two states that this version knows are anything but unknown.
func TestHealthState(t *testing.T) {
	for state, want := range map[openshellv1.ServiceHealthState]sandbox.HealthState{
		0: sandbox.HealthUnknown, 1: sandbox.HealthUnknown, 2: sandbox.HealthHealthy,
		3: sandbox.HealthUnhealthy, 4: sandbox.HealthUnknown, -1: sandbox.HealthUnknown, 99: sandbox.HealthUnknown,
	} {
		got := sandbox.HealthOf(&openshellv1.ServiceEndpointResponse{Health: &openshellv1.ServiceHealth{State: state}})
		if got.State != want {
			t.Errorf("state %d is %v, want %v", state, got.State, want)
		}
	}
	for name, absent := range map[string]*openshellv1.ServiceEndpointResponse{
		"no answer": nil, "no health": {}, "empty health": {Health: &openshellv1.ServiceHealth{}},
		"out of range": {Health: &openshellv1.ServiceHealth{
			LastCheckedTime: &timestamppb.Timestamp{Seconds: 1 << 60}, Latency: &durationpb.Duration{Nanos: -1, Seconds: 1},
		}},
	} {
		if got := sandbox.HealthOf(absent); got != (sandbox.Health{}) {
			t.Errorf("%s: %+v, want the zero value", name, got)
		}
	}
}

func TestHealthFields(t *testing.T) {
	checked := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	code := uint32(503)
	got := sandbox.HealthOf(&openshellv1.ServiceEndpointResponse{
		Endpoint: &openshellv1.ServiceEndpoint{ReadinessCheck: &openshellv1.HttpReadinessCheck{Path: "/"}},
		Health: &openshellv1.ServiceHealth{
			State: openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY, Reason: "BadStatus", Message: "m",
			HttpStatusCode: &code, ConsecutiveFailures: 3, Address: "::1", Latency: durationpb.New(2 * time.Millisecond),
			LastCheckedTime: timestamppb.New(checked), LastTransitionTime: timestamppb.New(checked.Add(-time.Minute)),
		},
	})
	want := sandbox.Health{
		State: sandbox.HealthUnhealthy, Ready: true, Reason: "BadStatus", Message: "m", HTTPStatus: 503, Failures: 3,
		Address: "::1", Latency: 2 * time.Millisecond, LastChecked: checked, LastTransition: checked.Add(-time.Minute),
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestHealthStateString(t *testing.T) {
	for s, want := range map[sandbox.HealthState]string{sandbox.HealthUnknown: "unknown", sandbox.HealthHealthy: "healthy", sandbox.HealthUnhealthy: "unhealthy", 9: "unknown"} {
		if s.String() != want {
			t.Errorf("%d is %q, want %q", int(s), s, want)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 100 {
		id := sandbox.NewRequestID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("%q is no new random UUID", id)
		}
		seen[id] = true
	}
}
