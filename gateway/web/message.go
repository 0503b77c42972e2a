// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"strings"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// message is one event of the page. Instants are told as milliseconds before
// the message, so that the browser's clock does not matter.
type message struct {
	// Complete: with this message everything was sent once.
	Complete bool      `json:"complete"`
	Removed  []uint32  `json:"removed,omitempty"`
	Services []service `json:"services,omitempty"`
	// Ages are pairs of a service's number and an age.
	Ages [][2]uint32 `json:"ages,omitempty"`
	// Sandboxes are all of them, where they were listed anew.
	Sandboxes *[]sandbox `json:"sandboxes,omitempty"`
}

type service struct {
	Number    uint32 `json:"number"`
	Workspace string `json:"workspace"`
	Sandbox   string `json:"sandbox"`
	Name      string `json:"name"`
	URL       string `json:"url"`
	Port      uint32 `json:"port"`
	Check     string `json:"check,omitempty"` // path of the readiness check
	Phase     string `json:"phase"`           // of the sandbox
	verdict
	Message string   `json:"message"`
	Age     *uint32  `json:"age,omitempty"`
	Latency *float64 `json:"latency,omitempty"` // ms
	Address string   `json:"address,omitempty"`
	// Recorded is since when transitions are kept.
	Recorded    int64    `json:"recorded"`
	Transitions []change `json:"transitions,omitempty"` // oldest first
}

// verdict is an answer in words: state HEALTHY, UNHEALTHY, UNKNOWN or "".
type verdict struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Code   uint32 `json:"code,omitempty"` // HTTP status
}

type change struct {
	At int64 `json:"at"`
	verdict
	Cause string `json:"cause"`
}

type sandbox struct {
	Workspace string `json:"workspace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	Message   string `json:"message"`
}

func stateWord(s openshellv1.ServiceHealthState) string {
	if s == openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNSPECIFIED {
		return ""
	}
	return strings.TrimPrefix(s.String(), "SERVICE_HEALTH_STATE_")
}

func phaseWord(p openshellv1.SandboxPhase) string {
	return strings.TrimPrefix(p.String(), "SANDBOX_PHASE_")
}

// serviceOf renders a service and its history, which may be nil.
func serviceOf(w *sandboxv1.WatchedService, past *sandboxv1.ListServiceTransitionsResponse) service {
	e, h := w.GetService().GetEndpoint(), w.GetService().GetHealth()
	s := service{
		Number: w.GetNumber(), Workspace: e.GetMetadata().GetWorkspace(), Sandbox: e.GetSandbox(), Name: e.GetName(),
		URL: w.GetService().GetUrl(), Port: e.GetTargetPort(), Check: e.GetReadinessCheck().GetPath(),
		Phase: phaseWord(w.GetSandboxPhase()), Age: w.AgeMs, Address: h.GetAddress(), Message: h.GetMessage(),
		verdict: verdict{State: stateWord(h.GetState()), Reason: h.GetReason(), Code: h.GetHttpStatusCode()},
	}
	if s.State == "UNKNOWN" { // the age in the text is the message's; the page counts its own
		s.Message, _, _ = strings.Cut(s.Message, "; last checked ")
	}
	if l := h.GetLatency(); l != nil {
		ms := float64(l.AsDuration().Microseconds()) / 1000
		s.Latency = &ms
	}
	if past == nil {
		return s
	}
	read := past.GetReadTime().AsTime()
	before := func(t time.Time) int64 { return max(read.Sub(t).Milliseconds(), 0) }
	s.Recorded = before(past.GetRecordedSince().AsTime())
	for _, t := range past.GetTransitions() {
		s.Transitions = append(s.Transitions, change{
			At:      before(t.GetTime().AsTime()),
			verdict: verdict{State: stateWord(t.GetToState()), Reason: t.GetToReason(), Code: t.GetHttpStatusCode()},
			Cause:   strings.TrimPrefix(t.GetCause().String(), "TRANSITION_CAUSE_"),
		})
	}
	return s
}

// sandboxOf renders a sandbox.
func sandboxOf(s *openshellv1.Sandbox) sandbox {
	r := sandbox{
		Workspace: s.GetMetadata().GetWorkspace(), Name: s.GetMetadata().GetName(), Phase: phaseWord(s.GetStatus().GetPhase()),
	}
	for _, c := range s.GetStatus().GetConditions() {
		if c.GetType() == "Ready" {
			r.Message = c.GetMessage()
		}
	}
	return r
}
