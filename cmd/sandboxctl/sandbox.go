// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

const (
	// driverAnnotation carries the choice of --driver.
	driverAnnotation = "sandbox-agent.dev/driver"
	// runtimeCondition tells how a sandbox is booted, or why it cannot be.
	runtimeCondition = "Runtime"
)

func (a *app) sandboxCommand() *cobra.Command {
	cmd := group("sandbox", "Create, look at, stop, start and delete sandboxes",
		a.sandboxCreate(), a.sandboxGet(), a.sandboxList(), a.sandboxStop(), a.sandboxStart(), a.sandboxDelete())
	cmd.Example = `  sandboxctl sandbox create web --expose 8080 --driver local -- python3 -m http.server 8080
  sandboxctl sandbox list`
	return cmd
}

// drawSandbox writes all that is known of one sandbox.
func drawSandbox(p *page, s *openshellv1.Sandbox, now time.Time) {
	m, spec, st := s.GetMetadata(), s.GetSpec(), s.GetStatus()
	p.fields(
		field{"Sandbox", val(m.GetName())},
		field{"Workspace", val(m.GetWorkspace())},
		field{"Phase", toned(phaseWords(st))},
		field{"Driver", val(m.GetAnnotations()[driverAnnotation])},
		field{"Image", val(spec.GetTemplate().GetImage())},
		field{"Command", val(strings.Join(spec.GetCommand(), " "))},
		// Values of the environment may be secrets.
		field{"Environment", val(strings.Join(slices.Sorted(maps.Keys(spec.GetEnvironment())), ", "))},
		field{"Labels", val(labelWords(m.GetLabels()))},
		field{"Instance", val(st.GetMainProcessInstanceId())},
		field{"Created", val(agoWords(instant(m.GetCreatedTime()), now))},
		field{"ID", val(m.GetId())},
	)
	for _, c := range st.GetConditions() {
		p.line("")
		p.line(conditionWords(c))
		p.paragraph("  ", c.GetMessage())
	}
}

func conditionWords(c *openshellv1.SandboxCondition) string {
	s := c.GetType() + ": " + c.GetStatus()
	if c.GetReason() != "" {
		s += " (" + c.GetReason() + ")"
	}
	return s
}

func labelWords(labels map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, k+"="+labels[k])
	}
	return strings.Join(list, ", ")
}

// drawRuntime writes what the gateway says of how to boot the sandbox: for one
// that somebody else boots, where the token is and how to start the agent.
func drawRuntime(p *page, s *openshellv1.Sandbox) {
	for _, c := range s.GetStatus().GetConditions() {
		if c.GetType() == runtimeCondition && c.GetMessage() != "" {
			p.line("")
			p.paragraph("", c.GetMessage())
		}
	}
}

// drawChange writes what became of a sandbox, "Sandbox web created".
func drawChange(p *page, s *openshellv1.Sandbox, change string) {
	phase, _ := phaseWords(s.GetStatus())
	p.line("Sandbox " + s.GetMetadata().GetName() + " " + change + " (" + phase + ").")
}

// agoWords spells an instant for detailed views: "5m ago, 2030-01-02T03:04:05Z".
func agoWords(then, now time.Time) string {
	if then.IsZero() {
		return ""
	}
	return ageWords(then, now) + " ago, " + then.UTC().Format(time.RFC3339)
}

func instant(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}
