// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// token is what no output may ever show.
const token = "t0p-s3cr3t-t0k3n"

// today is the time of every test.
var today = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(today.Add(-d)) }

// fixture is a fake gateway on loopback TLS, its state directory, and the
// world of a command that finds it.
type fixture struct {
	*sandboxtest.Gateway
	dir, address string
	env          map[string]string
	width        int // of the terminal
	tty          bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		Gateway: sandboxtest.New(sandboxtest.Options{Token: token, Now: func() time.Time { return today }, PageSize: 2}),
		dir:     t.TempDir(),
	}
	f.address = sandboxtest.StartTLS(t, f.Gateway, f.dir)
	f.env = map[string]string{"SANDBOX_GATEWAY_STATE_DIR": f.dir}
	return f
}

// result is what a run wrote and its exit code.
type result struct {
	out, err string
	code     int
}

// run carries out one command line, and holds what is true of every run: no
// output shows the token or a control character.
func (f *fixture) run(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{
		env: maps.Clone(f.env), stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		now: func() time.Time { return today }, euid: 1000,
		terminal: func(io.Writer) (int, bool) { return f.width, f.tty },
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := result{code: a.run(ctx, args)}
	r.out, r.err = out.String(), errs.String()
	for name, s := range map[string]string{"stdout": r.out, "stderr": r.err} {
		if strings.Contains(s, token) {
			t.Errorf("%q shows the token on %s:\n%s", args, name, s)
		}
		if strings.ContainsFunc(uncolour(s), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) && args[0] != "completion" {
			t.Errorf("%q writes an unprintable character to %s:\n%q", args, name, s)
		}
	}
	return r
}

// uncolour takes away the colours that the command itself writes.
func uncolour(s string) string {
	return strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(s)
}

// String lays a result out for a golden file, without what differs from run to
// run.
func (f *fixture) golden(args []string, r result) string {
	s := fmt.Sprintf("$ sandboxctl %s\n%s", strings.Join(args, " "), r.out)
	if r.err != "" {
		s += "-- stderr --\n" + r.err
	}
	s += fmt.Sprintf("-- exit %d --\n", r.code)
	return strings.NewReplacer(f.address, "https://GATEWAY", f.dir, "STATE_DIR", "\x1b", "ESC").Replace(s)
}

// fill puts one of everything into the gateway.
func (f *fixture) fill() {
	sandbox := func(workspace, name, driver string, phase openshellv1.SandboxPhase, age time.Duration) *openshellv1.Sandbox {
		return &openshellv1.Sandbox{
			Metadata: &datamodelv1.ObjectMeta{
				Id: "id-of-" + name, Name: name, Workspace: workspace, CreatedTime: ago(age),
				Annotations: map[string]string{driverAnnotation: driver}, Labels: map[string]string{"team": "blue"},
			},
			Status: &openshellv1.SandboxStatus{Phase: phase},
		}
	}
	web := sandbox("default", "web", "local", openshellv1.SandboxPhase_SANDBOX_PHASE_READY, 3*time.Minute)
	web.Spec = &openshellv1.SandboxSpec{
		Command: []string{"python3", "-m", "http.server", "8080"}, Environment: map[string]string{"MODE": "dev", "KEY": "hidden-value"},
		Template: &openshellv1.SandboxTemplate{Image: "python"},
	}
	web.Status.MainProcessInstanceId = "instance-1"
	web.Status.Conditions = []*openshellv1.SandboxCondition{{Type: runtimeCondition, Status: "True", Reason: "Booted", Message: "Process 4711 runs.\nIts log is in web.log."}}
	api := sandbox("default", "api", "external", openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, 5*time.Hour)
	exit := int32(137)
	api.Status.ExitCode = &exit
	old := sandbox("default", "old", "", openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED, 72*time.Hour)
	old.Metadata.Labels = nil
	f.PutSandbox(web)
	f.PutSandbox(api)
	f.PutSandbox(old)
	f.PutSandbox(sandbox("default", "new", "local", 99, time.Second))
	f.PutSandbox(sandbox("blue", "far", "local", openshellv1.SandboxPhase_SANDBOX_PHASE_PROVISIONING, time.Minute))

	f.PutService(endpoint("default", "web", "", 8080, ""), health(2, "", 404, 3*time.Second))
	f.PutService(endpoint("default", "web", "docs", 8000, "/readyz"), health(2, "", 200, 4*time.Second))
	f.PutService(endpoint("default", "api", "", 8080, ""), unhealthy("Refused", 0))
	f.PutService(endpoint("default", "api", "admin", 9000, "/healthz"), unhealthy("BadStatus", 503))
	f.PutService(endpoint("default", "old", "", 80, "/"), &openshellv1.ServiceHealth{
		State: 1, Reason: "SandboxStopped", Message: "The sandbox is stopped.",
	})
	f.PutService(endpoint("default", "new", "", 80, ""), nil)
	f.PutService(endpoint("default", "new", "next", 81, ""), &openshellv1.ServiceHealth{State: 42})
	f.PutService(endpoint("blue", "far", "", 80, ""), health(2, "", 200, time.Second))
}

func endpoint(workspace, sandbox, name string, port uint32, path string) *openshellv1.ServiceEndpoint {
	e := &openshellv1.ServiceEndpoint{
		Metadata: &datamodelv1.ObjectMeta{Id: "id-of-" + sandbox + "-" + name, Name: name, Workspace: workspace, CreatedTime: ago(time.Hour)},
		Sandbox:  sandbox, Name: name, TargetPort: port,
	}
	if path != "" {
		e.ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: path}
	}
	return e
}

func health(state openshellv1.ServiceHealthState, reason string, code uint32, age time.Duration) *openshellv1.ServiceHealth {
	return &openshellv1.ServiceHealth{
		State: state, Reason: reason, HttpStatusCode: &code, LastCheckedTime: ago(age), LastTransitionTime: ago(time.Hour),
		Latency: durationpb.New(2100 * time.Microsecond), Address: "127.0.0.1", Message: "The latest check passed.",
	}
}

func unhealthy(reason string, code uint32) *openshellv1.ServiceHealth {
	h := health(3, reason, code, 2*time.Second)
	if code == 0 {
		h.HttpStatusCode, h.Address = nil, ""
	}
	h.ConsecutiveFailures, h.Message = 3, "The latest three checks failed."
	return h
}
