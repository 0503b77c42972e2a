// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// waitTimeout is how long a wait lasts unless --timeout says otherwise.
const waitTimeout = 60 * time.Second

func (a *app) serviceWait() *cobra.Command {
	states := healthStates{value: []string{"healthy"}}
	limit := patience(waitTimeout)
	cmd := command("wait SANDBOX [NAME] [flags]", "Wait until a service is healthy",
		`  sandboxctl service wait web
  sandboxctl service wait web docs --timeout 2m
  sandboxctl service wait api admin --for unhealthy,unknown`, "SANDBOX", "[NAME]")
	cmd.Long = `Wait returns once the health of a service is one of the states named by --for:
at once, if it is already. It gives up before the time is over if the state
cannot be reached any more: the sandbox is stopped or deleted, its main process
has exited, the service is deleted.

Exit codes: 0 reached, 1 it cannot be reached any more, 3 no such service,
4 the time is over; the message says what was waited for, how long, and what was
seen last.`
	cmd.Flags().Var(&states, "for", "states to wait for, of healthy, unhealthy and unknown")
	cmd.Flags().Var(&limit, "timeout", "give up after this `TIME`")
	complete(cmd, "for", healthNames())
	cmd.ValidArgsFunction = a.completeService
	cmd.RunE = a.lasting(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := a.wait(ctx, c, &sandboxv1.WaitServiceRequest{
			WorkspaceScope: a.scope(), Sandbox: args[0], Name: optional(args, 1),
			States: states.wire(), Timeout: durationpb.New(time.Duration(limit)),
		})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { drawWaited(p, resp) })
	})
	return cmd
}

// drawWaited writes what has become of a wait.
func drawWaited(p *page, resp *sandboxv1.WaitServiceResponse) {
	p.line(waitedWords(resp) + ".")
	p.fields(field{"URL", val(resp.GetService().GetUrl())})
}

// waitedWords spells a wait that is over: "Service docs of web is Ready after
// 1.2s".
func waitedWords(resp *sandboxv1.WaitServiceResponse) string {
	e := resp.GetService().GetEndpoint()
	word, _ := healthWords(sandbox.HealthOf(resp.GetService()))
	return serviceWords(e.GetSandbox(), e.GetName()) + " is " + word + " after " + elapsedWords(resp.GetElapsed().AsDuration())
}

func elapsedWords(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// healthStates is a list of states, separated by commas.
type healthStates struct {
	value []string
	given bool
}

func healthNames() []string { return []string{"healthy", "unhealthy", "unknown"} }

func (h *healthStates) String() string { return strings.Join(h.value, ",") }
func (h *healthStates) Type() string   { return "STATE[,STATE]" }
func (h *healthStates) Set(s string) error {
	if !h.given {
		h.value, h.given = nil, true
	}
	for name := range strings.SplitSeq(s, ",") {
		if !slices.Contains(healthNames(), name) {
			return usagef("--for: %q is none of %s", name, strings.Join(healthNames(), ", "))
		}
		if !slices.Contains(h.value, name) {
			h.value = append(h.value, name)
		}
	}
	return nil
}

func (h *healthStates) wire() []openshellv1.ServiceHealthState {
	var list []openshellv1.ServiceHealthState
	for _, name := range h.value {
		list = append(list, map[string]openshellv1.ServiceHealthState{
			"healthy":   openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY,
			"unhealthy": openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY,
			"unknown":   openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN,
		}[name])
	}
	return list
}
