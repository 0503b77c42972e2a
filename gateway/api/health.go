// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

var healthStates = map[probe.State]openshellv1.ServiceHealthState{
	probe.Unknown:   openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN,
	probe.Healthy:   openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY,
	probe.Unhealthy: openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY,
}

// Health renders an answer as of now. Its texts are made here, of closed enums
// and numbers alone.
func Health(a health.Answer, readiness bool, now time.Time) *openshellv1.ServiceHealth {
	h := &openshellv1.ServiceHealth{State: healthStates[a.State], Reason: a.Reason.String(), Message: unknownMessages[a.Reason]}
	o := a.Observation
	if o == nil {
		return h
	}
	if a.Reason == health.NoReason {
		h.Reason, h.Message = o.Reason.String(), verdictMessage(a.State, o, readiness)
	} else {
		if a.Reason == health.Stale && !o.Conclusive.IsZero() && o.Latest.After(o.Conclusive) {
			h.Message = staleMessage // of the checks since then none could tell
		}
		h.Message += fmt.Sprintf("; last checked %s ago", now.Sub(o.Latest).Round(100*time.Millisecond))
	}
	h.LastCheckedTime = timestamp(o.Latest, now)
	h.LastTransitionTime = timestamp(o.Since, now)
	h.Latency = durationpb.New(o.Latency)
	h.ConsecutiveFailures = uint32(o.Failures)
	if o.Code != 0 {
		h.HttpStatusCode = proto.Uint32(uint32(o.Code))
	}
	if o.Address.IsValid() {
		h.Address = o.Address.String()
	}
	return h
}

// timestamp renders an instant of the monotonic clock by its distance to now,
// so that a step of the wall clock between the two does not show. Nothing finer
// than a millisecond is known.
func timestamp(at, now time.Time) *timestamppb.Timestamp {
	return timestamppb.New(now.Round(0).Add(at.Sub(now)).Truncate(time.Millisecond))
}

var unknownMessages = map[health.Reason]string{
	health.SandboxStopped:         "the sandbox is stopped",
	health.SandboxNotReady:        "the sandbox is not ready",
	health.SupervisorDisconnected: "the agent of the sandbox is not connected",
	health.RuntimeReplaced:        "the agent was started anew and has not checked this service yet",
	health.ConfigurationChanged:   "the configuration has changed and was not checked yet",
	health.NotObserved:            "the agent has not checked this service yet",
	health.Stale:                  "the last check is older than 15 seconds",
	health.Inconclusive:           "the agent could not tell yet",
}

const staleMessage = "the last check that could tell is older than 15 seconds"

var reasonMessages = map[probe.Reason]string{
	probe.Refused:         "the connection was refused: nothing listens on the port",
	probe.Timeout:         "no response headers within one second",
	probe.Reset:           "the connection was reset",
	probe.Closed:          "the connection was closed before the response headers were complete",
	probe.NotHTTP:         "what answered does not speak HTTP/1",
	probe.HeadersTooLarge: "the response headers are larger than 64 KiB",
	probe.Unreachable:     "the loopback address could not be reached",
	probe.NoResources:     "the agent had no descriptor, port or memory for a connection",
	probe.Late:            "the agent was not running in time",
	probe.Suspended:       "the sandbox was suspended during the check",
	probe.Internal:        "the agent failed to check",
}

// verdictMessage says what an agent's verdict rests on.
func verdictMessage(state probe.State, o *health.Observation, readiness bool) string {
	text, known := reasonMessages[o.Reason]
	switch {
	case o.Reason == probe.OK && readiness:
		text = fmt.Sprintf("the readiness path answered %d", o.Code)
	case o.Reason == probe.OK:
		text = fmt.Sprintf("the service answered %d", o.Code)
	case o.Reason == probe.BadStatus:
		text = fmt.Sprintf("the readiness path answered %d, which is not in 200..299", o.Code)
	case !known:
		text = "the latest check ended for a reason unknown to this gateway"
	}
	switch {
	case o.Outcome == probe.Inconclusive:
		return "the verdict stands; the latest check could not tell: " + text
	case o.Outcome != probe.Fail:
		return text
	}
	switch state {
	case probe.Healthy:
		return fmt.Sprintf("healthy until three checks in a row fail; the latest: %s (%d in a row)", text, o.Failures)
	case probe.Unknown:
		const noVerdict = "no verdict until one check passes or three in a row fail; the latest: "
		if o.Failures == 0 { // it was made off the timer, and does not count
			return noVerdict + text
		}
		return fmt.Sprintf("%s%s (%d in a row)", noVerdict, text, o.Failures)
	default:
		return fmt.Sprintf("%s (%d checks in a row)", text, o.Failures)
	}
}
