// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

// Text that is not UTF-8 is the caller's fault, at once, wherever it stands;
// no call, watch or wait is repeated for it.
func TestRequestThatIsNoText(t *testing.T) {
	const bad = "secret\xff"
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	create := func(r *openshellv1.CreateSandboxRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.CreateSandbox(ctx, r)
			return err
		}
	}
	for _, tt := range []struct {
		field string
		call  func(context.Context) error
	}{
		{"name is", create(&openshellv1.CreateSandboxRequest{Name: bad})},
		{"spec.command[1] is", create(&openshellv1.CreateSandboxRequest{Spec: &openshellv1.SandboxSpec{Command: []string{"echo", bad}}})},
		{"spec.environment: a key or a value of it is", create(&openshellv1.CreateSandboxRequest{Spec: &openshellv1.SandboxSpec{Environment: map[string]string{"A": "", "B": bad}}})},
		{"labels: a key or a value of it is", create(&openshellv1.CreateSandboxRequest{Labels: map[string]string{bad: ""}})},
		{"service_exposures[0].readiness_check.path is", create(&openshellv1.CreateSandboxRequest{
			Name:             "web",
			ServiceExposures: []*openshellv1.SandboxServiceExposure{{TargetPort: 80, ReadinessCheck: &openshellv1.HttpReadinessCheck{Path: "/" + bad}}},
		})},
		{"workspace_scope.workspace is", func(ctx context.Context) error {
			scope := &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_Workspace{Workspace: bad}}
			for _, err := range c.Services(ctx, &openshellv1.ListServicesRequest{WorkspaceScope: scope}) {
				return err
			}
			return nil
		}},
		{"name is", func(ctx context.Context) error {
			_, err := c.WaitService(ctx, &sandboxv1.WaitServiceRequest{Sandbox: "web", Name: bad, Timeout: durationpb.New(time.Hour)})
			return err
		}},
		{"services[1] is", func(ctx context.Context) error {
			w := c.WatchServices(ctx, &sandboxv1.WatchServicesRequest{Services: []string{"docs", bad}})
			defer w.Close()
			u, err := w.Next()
			if err == nil {
				err = u.Err
			}
			return err
		}},
		{"target.sandbox is", func(ctx context.Context) error {
			_, err := c.ConnectService(ctx, &sandboxv1.ForwardTarget{Sandbox: bad})
			return err
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := tt.call(ctx)
		cancel()
		if !errors.Is(err, sandbox.ErrInvalidArgument) || !strings.Contains(err.Error(), tt.field+" not UTF-8") {
			t.Errorf("%s: %v", tt.field, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error holds the text: %v", tt.field, err)
		}
	}
	if n := len(g.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
