// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceHistory() *cobra.Command {
	cmd := command("history SANDBOX [NAME] [flags]", "Show how the health of a service has changed",
		`  sandboxctl service history web
  sandboxctl service history web docs
  sandboxctl service history web -o json`, "SANDBOX", "[NAME]")
	cmd.Long = `History shows what the gateway remembers of a service: a strip of its states, from
when it began to record until now, and a row for each change of the state or of
its reason. Where the strip stands for several states at once it shows the worst.

The gateway keeps the latest 64 changes in memory; they begin with its process.`
	cmd.ValidArgsFunction = a.completeService
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := c.ServiceTransitions(ctx, &sandboxv1.ListServiceTransitionsRequest{
			WorkspaceScope: a.scope(), Sandbox: args[0], Name: optional(args, 1),
		})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { drawHistory(p, resp) })
	})
	return cmd
}

// drawHistory writes a strip and a table. All times are the gateway's.
func drawHistory(p *page, r *sandboxv1.ListServiceTransitionsResponse) {
	now, ready := instant(r.GetReadTime()), r.GetService().GetEndpoint().GetReadinessCheck() != nil
	e, h := r.GetService().GetEndpoint(), sandbox.HealthOf(r.GetService())
	p.fields(
		field{"Service", val(lowerFirst(serviceWords(e.GetSandbox(), e.GetName())))},
		field{"Health", toned(healthWords(h))},
		field{"Recorded", val(agoWords(instant(r.GetRecordedSince()), now))},
	)
	if n := r.GetDropped(); n > 0 {
		p.line(fmt.Sprintf("(%d earlier changes are no longer kept)", n))
	}
	if len(r.GetTransitions()) == 0 {
		return
	}
	p.line("")
	drawStrip(p, r, now)
	p.line("")
	var rows [][]cell
	for i, t := range r.GetTransitions() {
		end := now
		if i+1 < len(r.GetTransitions()) {
			end = instant(r.GetTransitions()[i+1].GetTime())
		}
		at := instant(t.GetTime())
		to := stateOf(t, ready)
		rows = append(rows, []cell{
			val(at.UTC().Format(time.RFC3339)), val(ageWords(at, now)), toned(healthWords(to)), val(attemptWords(to)),
			val(causeWords(t.GetCause())), val(ageWords(at, end)),
		})
	}
	p.table([]column{{"TIME", 2}, {"AGO", 0}, {"HEALTH", 0}, {"REASON", 1}, {"CAUSE", 3}, {"LASTED", 4}}, rows)
}

// stateOf is the health after a transition, as far as it is known.
func stateOf(t *sandboxv1.ServiceTransition, ready bool) sandbox.Health {
	r := &openshellv1.ServiceEndpointResponse{
		Endpoint: &openshellv1.ServiceEndpoint{},
		Health:   &openshellv1.ServiceHealth{State: t.GetToState(), Reason: t.GetToReason(), HttpStatusCode: t.HttpStatusCode},
	}
	if ready {
		r.Endpoint.ReadinessCheck = &openshellv1.HttpReadinessCheck{}
	}
	return sandbox.HealthOf(r)
}

// causeWords spells what has changed an answer.
func causeWords(c sandboxv1.TransitionCause) string {
	switch c {
	case sandboxv1.TransitionCause_TRANSITION_CAUSE_GATEWAY_STARTED:
		return "gateway started"
	case sandboxv1.TransitionCause_TRANSITION_CAUSE_CONFIGURATION:
		return "configuration"
	case sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT:
		return "check"
	case sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION:
		return "agent's session"
	case sandboxv1.TransitionCause_TRANSITION_CAUSE_LIFECYCLE:
		return "sandbox"
	case sandboxv1.TransitionCause_TRANSITION_CAUSE_AGE:
		return "age"
	default:
		return "unknown"
	}
}

// stripWidth is how wide a strip is at most.
const stripWidth = 60

func drawStrip(p *page, r *sandboxv1.ListServiceTransitionsResponse, now time.Time) {
	width := stripWidth
	if p.width > 0 {
		width = min(width, p.width)
	}
	var out strings.Builder
	states := strip(r.GetTransitions(), instant(r.GetTransitions()[0].GetTime()), now, width)
	for i := 0; i < len(states); {
		j := i
		for j < len(states) && states[j] == states[i] {
			j++
		}
		mark, t := stripMark(states[i])
		out.WriteString(p.paint(toned(strings.Repeat(mark, j-i), t)))
		i = j
	}
	p.out.WriteString(out.String() + "\n")
	left := ageWords(instant(r.GetTransitions()[0].GetTime()), now) + " ago"
	p.line(left + strings.Repeat(" ", max(width-cellWidth(left)-len("now"), 1)) + "now")
	p.line("█ healthy  ▄ unhealthy  · unknown")
}

func stripMark(s sandbox.HealthState) (string, tone) {
	switch s {
	case sandbox.HealthHealthy:
		return "█", good
	case sandbox.HealthUnhealthy:
		return "▄", bad
	default:
		return "·", unsure
	}
}

// strip divides the time between two instants into equal parts and returns the
// worst state of each: unhealthy, then unknown, then healthy.
func strip(list []*sandboxv1.ServiceTransition, since, now time.Time, parts int) []sandbox.HealthState {
	out := make([]sandbox.HealthState, parts)
	known := make([]bool, parts)
	part := func(at time.Time) int {
		if span := now.Sub(since); span > 0 {
			return min(max(int(float64(at.Sub(since))/float64(span)*float64(parts)), 0), parts-1)
		}
		return 0
	}
	for i, t := range list {
		first, last := part(instant(t.GetTime())), parts-1
		if i+1 < len(list) {
			last = max(part(instant(list[i+1].GetTime()).Add(-1)), first)
		}
		state := stateOf(t, false).State
		for j := first; j <= last; j++ {
			if !known[j] || worse(state, out[j]) {
				out[j], known[j] = state, true
			}
		}
	}
	return out
}

func worse(a, b sandbox.HealthState) bool {
	rank := map[sandbox.HealthState]int{sandbox.HealthHealthy: 0, sandbox.HealthUnknown: 1, sandbox.HealthUnhealthy: 2}
	return rank[a] > rank[b]
}
