// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// sample is a message of which a vector is made.
type sample struct {
	name, about string
	message     proto.Message
	states      []string // of the services in it
	newer       bool     // has unknown fields
	noJSON      bool
}

const (
	unspecified = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNSPECIFIED
	unknown     = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN
	healthy     = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY
	unhealthy   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY
	fromFuture  = openshellv1.ServiceHealthState(7)
)

func instant() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC) }

// endpoint is a stored service; path is its readiness path, or empty.
func endpoint(name, path string) *openshellv1.ServiceEndpoint {
	e := &openshellv1.ServiceEndpoint{
		Metadata: &datamodelv1.ObjectMeta{
			Id: "1b4e28ba-2fa1-4d2b-883f-0016d3cca427", Name: name, Labels: map[string]string{"team": "search"},
			ResourceVersion: 1<<53 + 1, Workspace: "default", CreatedTime: timestamppb.New(instant().Add(-time.Hour)),
		},
		SandboxId: "6fa459ea-ee8a-4ca4-894e-db77e160355e", Sandbox: "web", Name: name, TargetPort: 8080, Domain: true,
	}
	if path != "" {
		e.ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: path}
	}
	return e
}

func answer(name, path string, h *openshellv1.ServiceHealth) *openshellv1.ServiceEndpointResponse {
	url := "http://default--web.sandbox.localhost:17680/"
	if name != "" {
		url = "http://default--web--" + name + ".sandbox.localhost:17680/"
	}
	return &openshellv1.ServiceEndpointResponse{Endpoint: endpoint(name, path), Url: url, Health: h}
}

// checked is a health after an attempt.
func checked(state openshellv1.ServiceHealthState, reason string, code uint32) *openshellv1.ServiceHealth {
	h := &openshellv1.ServiceHealth{
		State: state, Reason: reason, Message: "a sentence of the gateway",
		LastCheckedTime: timestamppb.New(instant()), LastTransitionTime: timestamppb.New(instant().Add(-90 * time.Second)),
		Latency: durationpb.New(1_234_567 * time.Nanosecond),
	}
	if code != 0 {
		h.HttpStatusCode, h.Address = proto.Uint32(code), "127.0.0.1"
	}
	return h
}

func one(name, about, state string, r *openshellv1.ServiceEndpointResponse) sample {
	return sample{name: name, about: about, message: r, states: []string{state}}
}

func samples() []sample {
	list := []sample{
		one("healthy_readiness", "a readiness check that passes", "healthy", answer("docs", "/readyz", checked(healthy, "OK", 204))),
		one("healthy_responsiveness", "without a check any status is an answer", "healthy", answer("docs", "", checked(healthy, "OK", 404))),
		one("healthy_unnamed", "the unnamed service", "healthy", answer("", "/", checked(healthy, "OK", 200))),
		one("healthy_ipv6", "an application on ::1 alone", "healthy", answer("docs", "", ipv6())),
		one("healthy_failing", "two fails do not yet count", "healthy", answer("docs", "/readyz", failing(checked(healthy, "BadStatus", 503), 2))),
		one("unhealthy_readiness", "a readiness check that fails", "unhealthy", answer("docs", "/readyz", failing(checked(unhealthy, "BadStatus", 503), 3))),
		one("unhealthy_responsiveness", "nobody listens", "unhealthy", answer("docs", "", failing(checked(unhealthy, "Refused", 0), 4_000_000_000))),
		one("unknown_inconclusive", "an attempt that could not tell", "unknown", answer("docs", "", checked(unknown, "Inconclusive", 0))),
		one("status_zero", "a status code of zero that is there is not the same on the wire", "healthy", answer("docs", "", zeroStatus())),

		one("health_absent", "a gateway from before health, or a replayed answer", "unknown", answer("docs", "/readyz", nil)),
		one("health_empty", "a health that says nothing", "unknown", answer("docs", "/readyz", &openshellv1.ServiceHealth{})),
		one("state_unspecified", "an unspecified state is unknown, whatever else is there", "unknown", answer("docs", "/readyz", checked(unspecified, "OK", 200))),
		one("state_from_future", "a state that this version does not know is unknown", "unknown", answer("docs", "/readyz", checked(fromFuture, "Degraded", 200))),
		one("reason_from_future", "a reason that this version does not know", "unhealthy", answer("docs", "/readyz", checked(unhealthy, "QuotaSpent", 429))),
		one("old_endpoint", "a gateway from before readiness and health", "unknown", oldAnswer()),
		one("empty_answer", "no bytes at all", "unknown", &openshellv1.ServiceEndpointResponse{}),
		one("endpoint_absent", "a health without an endpoint", "healthy", &openshellv1.ServiceEndpointResponse{Health: checked(healthy, "OK", 200)}),
		one("check_empty", "a check that is there with an empty path still means readiness", "healthy", emptyCheck()),
		one("text_unprintable", "texts may hold any character; who shows them escapes them", "unhealthy", answer("docs", "", unprintable())),
		one("times_nanoseconds", "times and durations to the nanosecond", "healthy", answer("docs", "", nanoseconds())),
		one("times_epoch", "a time at the epoch is a time", "healthy", answer("docs", "", epoch())),
		{
			name: "times_out_of_range", about: "a time and a duration that are out of range count as absent", states: []string{"healthy"},
			message: answer("docs", "", outOfRange()), noJSON: true,
		},
		{name: "unknown_fields", about: "fields of a newer API on every level", message: newerAnswer(), states: []string{"healthy"}, newer: true},
		{
			name: "list", about: "a page with a service of each kind", states: []string{"healthy", "unhealthy", "unknown", "unknown"},
			message: &openshellv1.ListServicesResponse{NextPageToken: "bmV4dA", Services: []*openshellv1.ServiceEndpointResponse{
				answer("", "", checked(healthy, "OK", 200)), answer("docs", "/readyz", failing(checked(unhealthy, "Timeout", 0), 3)),
				answer("new", "/", &openshellv1.ServiceHealth{State: unknown, Reason: "NotObserved"}), answer("old", "", nil),
			}},
		},
		{name: "list_empty", about: "the last page of nothing", message: &openshellv1.ListServicesResponse{}},
	}
	list = append(list, reasons()...)
	return append(list, others()...)
}

// reasons has a sample for every reason that a gateway gives.
func reasons() []sample {
	var list []sample
	for r := health.NoReason + 1; r.String() != "Unknown"; r++ {
		h := &openshellv1.ServiceHealth{State: unknown, Reason: r.String(), Message: "a sentence of the gateway"}
		list = append(list, one("reason_unknown_"+strings.ToLower(r.String()), "unknown: "+r.String(), "unknown", answer("docs", "/readyz", h)))
	}
	for r := probe.OK; r.String() != "Unknown"; r++ {
		state, word, code := unhealthy, "unhealthy", uint32(0)
		switch r {
		case probe.OK:
			state, word, code = healthy, "healthy", 200
		case probe.BadStatus:
			code = 500
		case probe.NoResources, probe.Late, probe.Suspended, probe.Internal:
			state, word = healthy, "healthy"
		}
		list = append(list, one("reason_attempt_"+strings.ToLower(r.String()), "the latest attempt: "+r.String(), word, answer("docs", "/readyz", checked(state, r.String(), code))))
	}
	return list
}

func ipv6() *openshellv1.ServiceHealth {
	h := checked(healthy, "OK", 200)
	h.Address = "::1"
	return h
}

func failing(h *openshellv1.ServiceHealth, n uint32) *openshellv1.ServiceHealth {
	h.ConsecutiveFailures = n
	return h
}

func zeroStatus() *openshellv1.ServiceHealth {
	h := checked(healthy, "OK", 0)
	h.HttpStatusCode = proto.Uint32(0)
	return h
}

func unprintable() *openshellv1.ServiceHealth {
	h := checked(unhealthy, "Reset", 0)
	h.Message = "a\x1b[31mred\x07 \u202etext\n\u00e9\U0001F600"
	return h
}

func nanoseconds() *openshellv1.ServiceHealth {
	h := checked(healthy, "OK", 200)
	h.LastCheckedTime = timestamppb.New(instant().Add(123_456 * time.Nanosecond))
	h.LastTransitionTime = timestamppb.New(instant().Truncate(time.Second))
	h.Latency = durationpb.New(1)
	return h
}

func epoch() *openshellv1.ServiceHealth {
	h := checked(healthy, "OK", 200)
	h.LastCheckedTime, h.LastTransitionTime = &timestamppb.Timestamp{}, &timestamppb.Timestamp{Seconds: -1, Nanos: 500_000_000}
	h.Latency = &durationpb.Duration{}
	return h
}

func outOfRange() *openshellv1.ServiceHealth {
	h := checked(healthy, "OK", 200)
	h.LastCheckedTime = &timestamppb.Timestamp{Seconds: 1 << 60}
	h.LastTransitionTime = &timestamppb.Timestamp{Seconds: 1_700_000_000, Nanos: -1}
	h.Latency = &durationpb.Duration{Seconds: 1, Nanos: -1}
	return h
}

// oldAnswer has only what a service had before readiness and health.
func oldAnswer() *openshellv1.ServiceEndpointResponse {
	r := answer("docs", "", nil)
	r.Endpoint.Metadata.Labels, r.Endpoint.Domain = nil, false
	return r
}

func emptyCheck() *openshellv1.ServiceEndpointResponse {
	r := answer("docs", "/", checked(healthy, "OK", 200))
	r.Endpoint.ReadinessCheck.Path = ""
	return r
}

// newerAnswer has a field of each wire type that no message here has.
func newerAnswer() *openshellv1.ServiceEndpointResponse {
	r := answer("docs", "/readyz", checked(healthy, "OK", 200))
	newer(r, protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), "text"))
	newer(r.Health, protowire.AppendVarint(protowire.AppendTag(nil, 901, protowire.VarintType), 1<<40))
	newer(r.Endpoint, protowire.AppendFixed32(protowire.AppendTag(nil, 902, protowire.Fixed32Type), 7))
	newer(r.Endpoint.ReadinessCheck, protowire.AppendFixed64(protowire.AppendTag(nil, 903, protowire.Fixed64Type), 7))
	newer(r.Endpoint.Metadata, protowire.AppendBytes(protowire.AppendTag(nil, 904, protowire.BytesType), []byte{8, 1}))
	return r
}

func newer(m proto.Message, field []byte) { m.ProtoReflect().SetUnknown(field) }
