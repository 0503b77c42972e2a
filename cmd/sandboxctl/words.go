// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// tone is what colour adds to a word. The word says it all without.
type tone int

const (
	plain tone = iota
	good
	bad
	unsure
)

// clean makes a text safe for a terminal: whatever is not printable (control
// characters, text direction, invisible characters) is shown as an escape.
func clean(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// hidden is true for U+FFFD too, which stands for bytes that are not UTF-8.
func hidden(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// healthWords spells a service's health.
func healthWords(h sandbox.Health) (string, tone) {
	switch {
	case h.State == sandbox.HealthHealthy && h.Ready:
		return "Ready", good
	case h.State == sandbox.HealthHealthy:
		return "Responsive", good
	case h.State == sandbox.HealthUnhealthy && h.Ready:
		return "Not ready", bad
	case h.State == sandbox.HealthUnhealthy:
		return "Unresponsive", bad
	case h.Reason != "":
		return "Unknown (" + h.Reason + ")", unsure
	}
	return "Unknown", unsure
}

// attemptWords spells how the latest attempt ended. The reason of an unknown
// health is not the attempt's, and healthWords has said it.
func attemptWords(h sandbox.Health) string {
	reason := h.Reason
	if h.State == sandbox.HealthUnknown {
		reason = ""
	}
	switch {
	case h.HTTPStatus == 0:
		return reason
	case reason == "":
		return fmt.Sprintf("HTTP %d", h.HTTPStatus)
	}
	return fmt.Sprintf("%s %d", reason, h.HTTPStatus)
}

// checkWords spells a check shortly: "readiness /readyz" or "responsiveness".
func checkWords(e *openshellv1.ServiceEndpoint) string {
	if e.GetReadinessCheck() == nil {
		return "responsiveness"
	}
	return "readiness " + e.GetReadinessCheck().GetPath()
}

// phaseWords spells a sandbox's phase.
func phaseWords(s *openshellv1.SandboxStatus) (string, tone) {
	switch s.GetPhase() {
	case openshellv1.SandboxPhase_SANDBOX_PHASE_PROVISIONING:
		return "Provisioning", unsure
	case openshellv1.SandboxPhase_SANDBOX_PHASE_READY:
		return "Ready", good
	case openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR:
		if s.ExitCode != nil {
			return fmt.Sprintf("Error (exit %d)", s.GetExitCode()), bad
		}
		return "Error", bad
	case openshellv1.SandboxPhase_SANDBOX_PHASE_DELETING:
		return "Deleting", plain
	case openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPING:
		return "Stopping", plain
	case openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED:
		return "Stopped", plain
	case openshellv1.SandboxPhase_SANDBOX_PHASE_STARTING:
		return "Starting", unsure
	default:
		return "Unknown", unsure
	}
}

// statusWords spells a gateway's own health.
func statusWords(s openshellv1.ServiceStatus) (string, tone) {
	switch s {
	case openshellv1.ServiceStatus_SERVICE_STATUS_HEALTHY:
		return "Healthy", good
	case openshellv1.ServiceStatus_SERVICE_STATUS_DEGRADED:
		return "Degraded", unsure
	case openshellv1.ServiceStatus_SERVICE_STATUS_UNHEALTHY:
		return "Unhealthy", bad
	default:
		return "Unknown", unsure
	}
}

// outcomeWords spells what a deletion did.
func outcomeWords(o openshellv1.DeletionOutcome) string {
	switch o {
	case openshellv1.DeletionOutcome_DELETION_OUTCOME_COMPLETED:
		return "deleted"
	case openshellv1.DeletionOutcome_DELETION_OUTCOME_ACCEPTED:
		return "is being deleted"
	case openshellv1.DeletionOutcome_DELETION_OUTCOME_ALREADY_ABSENT:
		return "was not there"
	default:
		return "deletion has an unknown outcome"
	}
}

// serviceWords names a service; the unnamed one goes by its sandbox.
func serviceWords(sandboxName, service string) string {
	if service == "" {
		return "Unnamed service of " + sandboxName
	}
	return "Service " + service + " of " + sandboxName
}

// ageWords spells how long ago an instant was; the zero time has no age. The
// two clocks may differ a little, so the future counts as now.
func ageWords(then, now time.Time) string {
	if then.IsZero() {
		return ""
	}
	d := max(now.Sub(then), 0)
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// latencyWords spells a duration in milliseconds.
func latencyWords(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d <= 0:
		return ""
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 1, 64) + "ms"
	}
	return strconv.FormatFloat(ms, 'f', 0, 64) + "ms"
}

func plural(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
