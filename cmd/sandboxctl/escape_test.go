// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// evil clears a screen, sets a title, writes right to left and hides.
const evil = "x\x1b[2J\x1b]0;pwned\x07\u009b31m\r\u202e\u200b\ufeff\x7f"

// A gateway that fills every field with it reaches no terminal: fixture.run
// fails on any unprintable character.
func TestNoControlCharacters(t *testing.T) {
	f := newFixture(t)
	f.PutSandbox(&openshellv1.Sandbox{
		Metadata: &datamodelv1.ObjectMeta{
			Id: evil, Name: "web", Workspace: "default", CreatedTime: ago(0),
			Labels: map[string]string{evil: evil}, Annotations: map[string]string{driverAnnotation: evil},
		},
		Spec: &openshellv1.SandboxSpec{
			Command: []string{evil}, Environment: map[string]string{evil: evil},
			Template: &openshellv1.SandboxTemplate{Image: evil}, LogLevel: evil,
		},
		Status: &openshellv1.SandboxStatus{
			MainProcessInstanceId: evil, AgentPod: evil,
			Conditions: []*openshellv1.SandboxCondition{
				{Type: evil, Status: evil, Reason: evil, Message: evil},
				{Type: runtimeCondition, Message: evil + "\nand " + evil},
			},
		},
	})
	e := endpoint("default", "web", "", 80, evil)
	e.Metadata.Id = evil
	f.PutService(e, &openshellv1.ServiceHealth{State: 1, Reason: evil, Message: evil, Address: evil})
	f.PutTransitions("", "web", "", &sandboxv1.ListServiceTransitionsResponse{
		RecordedSince: ago(time.Hour), Transitions: []*sandboxv1.ServiceTransition{{Time: ago(time.Hour), FromReason: evil, ToReason: evil}},
	})
	f.SetOwnHealth(&openshellv1.HealthResponse{Status: 1, Version: evil})
	for _, terminal := range []int{0, 60, 300} {
		f.width, f.tty = terminal, terminal > 0
		for _, line := range []string{
			"sandbox get web", "sandbox list", "sandbox list -A", "sandbox stop web", "sandbox start web",
			"service get web", "service list", "service list -A", "service expose web 81", "gateway status",
			"service watch", "service watch web -A=false", "service wait web --for unknown", "service history web",
		} {
			for _, format := range []string{"table", "json", "yaml"} {
				args := append(strings.Fields(line), "-o", format)
				if got := f.run(t, args...); got.code != exitDone || got.out == "" {
					t.Errorf("%q: exit %d: %s", args, got.code, got.err)
				}
			}
		}
	}
	if got := f.run(t, "sandbox", "create", "new"+evil); got.code != exitDone {
		t.Errorf("create: %s", got.err)
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		f.Fail("GetSandbox", status.Error(code, evil+"\n"+evil))
		if got := f.run(t, "sandbox", "get", "web"); got.code == exitDone {
			t.Errorf("%v: exit 0", code)
		}
	}
	if got := f.run(t, "__complete", "sandbox", "get", ""); !strings.HasPrefix(got.out, "web\n:") {
		t.Errorf("completion offers %q", got.out)
	}
	if got := f.run(t, "sandbox", evil); got.code != exitUsage {
		t.Errorf("exit %d", got.code)
	}
}
