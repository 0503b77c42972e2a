// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// The rules that the fake promises to keep, each broken once.
func TestRules(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	create := func(name string, port uint32) error {
		_, err := c.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{
			Name: name, ServiceExposures: []*openshellv1.SandboxServiceExposure{{TargetPort: port}},
		})
		return err
	}
	if err := create("web", 8080); err != nil {
		t.Fatal(err)
	}
	get := func(scope string, name string) error {
		r := &openshellv1.GetServiceRequest{Sandbox: "web", Name: name, WorkspaceScope: sandbox.Workspace(scope)}
		if scope == "*" {
			r.WorkspaceScope = sandbox.AllWorkspaces()
		}
		_, err := c.GetService(t.Context(), r)
		return err
	}
	remove := func(missing bool) error {
		_, err := c.DeleteService(t.Context(), &openshellv1.DeleteServiceRequest{Sandbox: "web", Name: "none", AllowMissing: missing})
		return err
	}
	for name, tt := range map[string]struct{ got, want error }{
		"name taken":           {create("web", 8080), sandbox.ErrAlreadyExists},
		"port 0":               {create("other", 0), sandbox.ErrInvalidArgument},
		"port 65536":           {create("other", 65536), sandbox.ErrInvalidArgument},
		"there":                {get("", ""), nil},
		"there, by its name":   {get("default", ""), nil},
		"another workspace":    {get("other", ""), sandbox.ErrNotFound},
		"every workspace":      {get("*", ""), sandbox.ErrInvalidArgument},
		"another service":      {get("", "none"), sandbox.ErrNotFound},
		"delete what is not":   {remove(false), sandbox.ErrNotFound},
		"delete, allow absent": {remove(true), nil},
	} {
		if tt.want == nil && tt.got != nil || !errors.Is(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.got, tt.want)
		}
	}
}

// A sandbox without a name gets one, and another one the next time.
func TestNameless(t *testing.T) {
	c := sandboxtest.Start(t, sandboxtest.New(sandboxtest.Options{}))
	names := map[string]bool{}
	for range 2 {
		made, err := c.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{
			ServiceExposures: []*openshellv1.SandboxServiceExposure{{TargetPort: 8080}},
		})
		if err != nil {
			t.Fatal(err)
		}
		name := made.GetSandbox().GetMetadata().GetName()
		if !regexp.MustCompile(`^sandbox-\w{8}$`).MatchString(name) {
			t.Errorf("the name is %q", name)
		}
		if url := made.GetServiceUrls()[""]; !strings.Contains(url, "//default--"+name+".") {
			t.Errorf("sandbox %q has the URL %q", name, url)
		}
		if _, err := c.GetService(t.Context(), &openshellv1.GetServiceRequest{Sandbox: name}); err != nil {
			t.Error(err)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Errorf("two sandboxes have the names %v", names)
	}
}

// An update without a check keeps the stored one, and only a change of the
// configuration forgets the health.
func TestExposeUpdates(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	if _, err := c.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	expose := func(port uint32, check *openshellv1.HttpReadinessCheck) *openshellv1.ServiceEndpointResponse {
		t.Helper()
		r, err := c.ExposeService(t.Context(), &openshellv1.ExposeServiceRequest{Sandbox: "web", TargetPort: port, ReadinessCheck: check})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	healthy := &openshellv1.ServiceHealth{State: openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY}
	if r := expose(80, &openshellv1.HttpReadinessCheck{}); r.GetEndpoint().GetReadinessCheck().GetPath() != "/" {
		t.Errorf("an empty path came back as %v", r.GetEndpoint())
	}
	g.SetHealth("", "web", "", healthy)
	if r := expose(80, nil); r.GetEndpoint().GetReadinessCheck() == nil || sandbox.HealthOf(r).State != sandbox.HealthHealthy {
		t.Errorf("the same configuration gave %v", r)
	}
	if r := expose(81, nil); r.GetHealth().GetReason() != "ConfigurationChanged" {
		t.Errorf("another port gave %v", r.GetHealth())
	}
}
