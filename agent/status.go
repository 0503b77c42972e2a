// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Status is what an agent sees, as /status of its ops listener shows it.
type Status struct {
	Version  string          `json:"version"`
	Instance string          `json:"instance"`
	Ready    bool            `json:"ready"`
	Gateway  *GatewayStatus  `json:"gateway,omitempty"` // absent if it works alone
	Services []ServiceStatus `json:"services"`
}

// GatewayStatus is how the session is.
type GatewayStatus struct {
	Address   string  `json:"address"`
	Connected bool    `json:"connected"`
	Seconds   float64 `json:"seconds"` // in this state
	LastError string  `json:"last_error,omitempty"`
}

// ServiceStatus is one service and the agent's verdict on it.
type ServiceStatus struct {
	Name     string  `json:"name"`
	Port     uint16  `json:"port"`
	Path     string  `json:"path,omitempty"` // readiness path
	State    string  `json:"state"`
	Reason   string  `json:"reason,omitempty"`
	Code     uint16  `json:"http_status_code,omitempty"`
	Age      float64 `json:"age_seconds"`
	Latency  float64 `json:"latency_seconds"`
	Address  string  `json:"address,omitempty"`
	Failures int     `json:"consecutive_failures"`
}

// status returns what the agent sees now.
func (a *Agent) status(now time.Time) Status {
	s := Status{Version: buildinfo.Version, Instance: a.instance, Ready: a.checker.Ready(), Services: []ServiceStatus{}}
	if a.cfg.Gateway != "" {
		live, since, err := a.link.status()
		s.Gateway = &GatewayStatus{Address: a.cfg.Gateway, Connected: live}
		if !since.IsZero() {
			s.Gateway.Seconds = now.Sub(since).Seconds()
		}
		if err != nil {
			s.Gateway.LastError = err.Error()
		}
	}
	for _, e := range a.tracker.Snapshot().Entries {
		v := e.Verdict
		svc := ServiceStatus{
			Name: e.Service.Name, Port: e.Service.Target.Port, Path: e.Service.Target.Path,
			State: v.StateAt(now).String(), Failures: v.Failures,
		}
		if !v.Observed.IsZero() {
			svc.Reason, svc.Code = v.Latest.Reason.String(), v.Latest.Code
			svc.Age, svc.Latency = now.Sub(v.Observed).Seconds(), v.Latest.Latency.Seconds()
			if v.Latest.Addr.IsValid() {
				svc.Address = v.Latest.Addr.String()
			}
		}
		s.Services = append(s.Services, svc)
	}
	return s
}

func (a *Agent) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(a.status(time.Now())) // an error means that the client has left
}

// Summary says in one line for people how the agent and its services are.
func (a *Agent) Summary(now time.Time) string {
	s := a.status(now)
	words := make(map[string]int)
	for _, svc := range s.Services {
		words[word(svc)]++
	}
	line := fmt.Sprintf("%d services", len(s.Services))
	if len(s.Services) == 1 {
		line = "1 service"
	}
	separator := ": "
	for _, w := range []string{"ready", "responsive", "not ready", "unresponsive", "unknown"} {
		if words[w] > 0 {
			line += fmt.Sprintf("%s%d %s", separator, words[w], w)
			separator = ", "
		}
	}
	switch g := s.Gateway; {
	case g == nil:
		return line + "; no gateway"
	case g.Connected:
		return line + "; session up " + roughly(g.Seconds)
	default:
		return line + "; no session"
	}
}

// word is how people are told of a service's state.
func word(s ServiceStatus) string {
	readiness := s.Path != ""
	switch s.State {
	case probe.Healthy.String():
		if readiness {
			return "ready"
		}
		return "responsive"
	case probe.Unhealthy.String():
		if readiness {
			return "not ready"
		}
		return "unresponsive"
	}
	return "unknown"
}

// roughly renders a duration by its greatest unit, so that a status line does
// not change all the time.
func roughly(seconds float64) string {
	switch s := int(seconds); {
	case s < 60:
		return "less than 1 min"
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%d h", s/3600)
	default:
		return fmt.Sprintf("%d d", s/86400)
	}
}

// Alive reports whether the probe loop makes progress. It depends on nothing
// outside the process.
func (a *Agent) Alive(now time.Time) bool { return a.metrics.sinceRound(now) < 3*probe.Interval }
