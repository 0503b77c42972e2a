// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// URLs renders the URLs of services:
// SCHEME://WORKSPACE--SANDBOX[--SERVICE].DOMAIN[:PORT]/
type URLs struct {
	Scheme string
	Domain string
	// Port is left out of URLs where it is the scheme's own, or empty.
	Port string
}

// URL returns the URL of a service.
func (u URLs) URL(workspace, sandbox, service string) string {
	host := workspace + "--" + sandbox
	if service != "" {
		host += "--" + service
	}
	host += "." + u.Domain
	if own := map[string]string{"http": "80", "https": "443"}; u.Port != "" && u.Port != own[u.Scheme] {
		host = net.JoinHostPort(host, u.Port)
	}
	return u.Scheme + "://" + host + "/"
}

// sandbox renders a sandbox as it is now.
func (s *Server) sandbox(sb store.Sandbox, now time.Time) *openshellv1.Sandbox {
	slot := s.cfg.Cache.Slot(sb.ID).Of(sb.Generation)
	phase := s.phase(sb, slot, now)
	st := &openshellv1.SandboxStatus{
		Phase:                 openshellv1.SandboxPhase(phase),
		MainProcessInstanceId: sb.Instance,
		ExitCode:              sb.ExitCode,
		Conditions:            s.conditions(sb, phase, slot),
	}
	if slot.Instance != "" {
		st.MainProcessInstanceId = slot.Instance
	}
	return &openshellv1.Sandbox{
		Metadata: &datamodelv1.ObjectMeta{
			Id: sb.ID, Name: sb.Name, Workspace: sb.Workspace, Labels: sb.Labels, Annotations: sb.Annotations,
			ResourceVersion: sb.ResourceVersion, CreatedTime: timestamppb.New(sb.Created),
		},
		Spec: &openshellv1.SandboxSpec{
			LogLevel: sb.LogLevel, Environment: sb.Environment, Command: sb.Command, Tty: sb.TTY,
			Template: &openshellv1.SandboxTemplate{Image: sb.Image},
		},
		Status: st,
	}
}

// conditions say in words why the phase is what it is.
func (s *Server) conditions(sb store.Sandbox, phase health.Phase, slot health.Slot) []*openshellv1.SandboxCondition {
	c := &openshellv1.SandboxCondition{Type: "Ready", Status: "False", TransitionTime: timestamppb.New(sb.Changed)}
	switch phase {
	case health.Ready:
		c.Status, c.Reason, c.Message = "True", "SessionLive", "the agent is connected"
		if !slot.Live {
			c.Reason, c.Message = "SessionLost", "the agent was connected until a moment ago"
		}
	case health.Provisioning, health.Starting:
		c.Reason, c.Message = "AwaitingAgent", "no agent has connected yet"
		if hint := s.cfg.Hint(sb); hint != "" {
			return []*openshellv1.SandboxCondition{c, {
				Type: "Runtime", Status: "Unknown", Reason: "External", Message: hint, TransitionTime: c.TransitionTime,
			}}
		}
	case health.PhaseUnknown:
		c.Status, c.Reason, c.Message = "Unknown", "SessionLost", "the agent is not connected"
	case health.Error:
		c.Reason, c.Message = "MainProcessExited", "the main process has ended with an unknown status"
		if *sb.ExitCode >= 0 {
			c.Message = fmt.Sprintf("the main process has ended with status %d", *sb.ExitCode)
		}
	default:
		c.Reason = phaseWord(phase)
		c.Message = "the sandbox is " + strings.ToLower(c.Reason)
	}
	return []*openshellv1.SandboxCondition{c}
}

func phaseWord(p health.Phase) string {
	name := strings.TrimPrefix(openshellv1.SandboxPhase(p).String(), "SANDBOX_PHASE_")
	return name[:1] + strings.ToLower(name[1:])
}

// endpoint renders the stored record of a service.
func endpoint(svc store.Service) *openshellv1.ServiceEndpoint {
	e := &openshellv1.ServiceEndpoint{
		Metadata: &datamodelv1.ObjectMeta{
			Id: svc.ID, Name: svc.Name, Workspace: svc.Workspace, Labels: svc.Labels, Annotations: svc.Annotations,
			ResourceVersion: svc.ResourceVersion, CreatedTime: timestamppb.New(svc.Created),
		},
		SandboxId: svc.SandboxID, Sandbox: svc.Sandbox, Name: svc.Name,
		TargetPort: uint32(svc.Port), Domain: svc.Domain,
	}
	if svc.HasCheck {
		e.ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: svc.Path}
	}
	return e
}

// stored renders a service without its health.
func (s *Server) stored(svc store.Service) *openshellv1.ServiceEndpointResponse {
	return &openshellv1.ServiceEndpointResponse{
		Endpoint: endpoint(svc),
		Url:      s.cfg.URLs.URL(svc.Workspace, svc.Sandbox, svc.Name),
	}
}

// service renders a service and its health now.
func (s *Server) service(sb store.Sandbox, svc store.Service, now time.Time) *openshellv1.ServiceEndpointResponse {
	r := s.stored(svc)
	a := s.answer(sb, svc, now)
	if a.Observation != nil {
		s.cfg.ObserveAge(now.Sub(a.Observation.Latest))
	}
	r.Health = Health(a, svc.HasCheck, now)
	return r
}
