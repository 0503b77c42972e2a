// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceCommand() *cobra.Command {
	cmd := group("service", "Expose services of sandboxes and see how they are",
		a.serviceExpose(), a.serviceGet(), a.serviceList(), a.serviceWatch(), a.serviceWait(), a.serviceHistory(),
		a.serviceOpen(), a.serviceForward(), a.serviceDelete())
	cmd.Example = `  sandboxctl service expose web 8080 --readiness-path /readyz
  sandboxctl service list`
	return cmd
}

// drawServices writes one row for each service.
func drawServices(p *page, list []*openshellv1.ServiceEndpointResponse, all bool, now time.Time) {
	columns := []column{
		{"SANDBOX", 0},
		{"SERVICE", 0},
		{"PORT", 0},
		{"CHECK", 1},
		{"HEALTH", 0},
		{"REASON", 2},
		{"AGE", 3},
		{"LATENCY", 4},
		{"URL", 5},
	}
	var rows [][]cell
	for _, r := range list {
		e, h := r.GetEndpoint(), sandbox.HealthOf(r)
		rows = append(rows, []cell{
			val(e.GetSandbox()),
			val(e.GetName()),
			val(portWords(e)),
			val(checkWords(e)),
			toned(healthWords(h)),
			val(attemptWords(h)),
			val(ageWords(h.LastChecked, now)),
			val(latencyWords(h.Latency)),
			val(r.GetUrl()),
		})
	}
	if all {
		columns = append([]column{{"WORKSPACE", 0}}, columns...)
		for i, r := range list {
			rows[i] = append([]cell{val(r.GetEndpoint().GetMetadata().GetWorkspace())}, rows[i]...)
		}
	}
	p.table(columns, rows)
}

// drawService writes all that is known of one service.
func drawService(p *page, r *openshellv1.ServiceEndpointResponse, now time.Time) {
	e, m, h := r.GetEndpoint(), r.GetEndpoint().GetMetadata(), sandbox.HealthOf(r)
	check := "responsiveness: GET / gets an answer, whatever its status"
	if e.GetReadinessCheck() != nil {
		check = "readiness: GET " + e.GetReadinessCheck().GetPath() + " answers 2xx"
	}
	name := e.GetName()
	if name == "" {
		name = "(unnamed)"
	}
	p.fields(
		field{"Service", val(name)},
		field{"Sandbox", val(e.GetSandbox())},
		field{"Workspace", val(m.GetWorkspace())},
		field{"Port", val(portWords(e))},
		field{"URL", val(r.GetUrl())},
		field{"Check", val(check)},
		field{"Health", toned(healthWords(h))},
		field{"Message", val(h.Message)},
		field{"Reason", val(h.Reason)},
		field{"HTTP status", val(number(h.HTTPStatus))},
		field{"Failures", val(failureWords(h.Failures))},
		field{"Last checked", val(agoWords(h.LastChecked, now))},
		field{"Last changed", val(agoWords(h.LastTransition, now))},
		field{"Latency", val(latencyWords(h.Latency))},
		field{"Address", val(h.Address)},
		field{"Created", val(agoWords(instant(m.GetCreatedTime()), now))},
		field{"ID", val(m.GetId())},
	)
}

func portWords(e *openshellv1.ServiceEndpoint) string {
	return strconv.FormatUint(uint64(e.GetTargetPort()), 10)
}

// number is empty for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func failureWords(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + " in a row"
}
