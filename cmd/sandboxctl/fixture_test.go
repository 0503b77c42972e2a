// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
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
	height       int
	tty          bool
	launched     [][]string // programs
	launchErr    error
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := f.app(&out, &errs)
	if len(args) > 1 && args[0] == "service" && (args[1] == "watch" || args[1] == "forward") {
		a.stdout = &interrupting{&out, cancel} // somebody has seen enough
	}
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

// app is a command in the fixture's world.
func (f *fixture) app(stdout, stderr io.Writer) *app {
	return &app{
		env: maps.Clone(f.env), stdin: strings.NewReader(""), stdout: stdout, stderr: stderr,
		now: func() time.Time { return today }, euid: 1000,
		terminal: func(io.Writer) (int, bool) { return f.width, f.tty },
		height:   func(io.Writer) int { return f.height },
		launch: func(_ context.Context, name string, args ...string) error {
			f.launched = append(f.launched, append([]string{name}, args...))
			return f.launchErr
		},
	}
}

// interrupting interrupts the command when it writes something.
type interrupting struct {
	io.Writer
	interrupt func()
}

func (w *interrupting) Write(b []byte) (int, error) {
	w.interrupt()
	return w.Writer.Write(b)
}

// ownSequences are the control sequences that the command itself writes: its
// colours, and what writes over a line or a page.
var ownSequences = regexp.MustCompile(`\x1b\[(3[123]m|0m|K|J|[0-9]+A)|\r`)

// uncolour takes them away.
func uncolour(s string) string { return ownSequences.ReplaceAllString(s, "") }

// String lays a result out for a golden file, without what differs from run to
// run.
func (f *fixture) golden(args []string, r result) string {
	s := fmt.Sprintf("$ sandboxctl %s\n%s", strings.Join(args, " "), r.out)
	if r.err != "" {
		s += "-- stderr --\n" + r.err
	}
	s += fmt.Sprintf("-- exit %d --\n", r.code)
	s = elapsed.ReplaceAllString(s, "${1}TIME")
	if strings.HasPrefix(strings.Join(args, " "), "service watch") {
		s = seconds.ReplaceAllString(s, " Ns ")
	}
	return strings.NewReplacer(f.address, "https://GATEWAY", f.dir, "STATE_DIR", "\x1b", "ESC").Replace(s)
}

// elapsed is how long something took.
var elapsed = regexp.MustCompile(`("elapsed": "|after )[0-9.]+m?s`)

// seconds is an age that goes on while the test runs.
var seconds = regexp.MustCompile(` [0-9]s `)

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
	f.PutTransitions("", "web", "docs", history())
}

// history is that of a service that came, failed, was lost and came back.
func history() *sandboxv1.ListServiceTransitionsResponse {
	step := func(age time.Duration, to openshellv1.ServiceHealthState, reason string, cause sandboxv1.TransitionCause) *sandboxv1.ServiceTransition {
		return &sandboxv1.ServiceTransition{Time: ago(age), ToState: to, ToReason: reason, Cause: cause}
	}
	failed := step(30*time.Minute, 3, "BadStatus", sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT)
	code := uint32(503)
	failed.HttpStatusCode = &code
	return &sandboxv1.ListServiceTransitionsResponse{
		RecordedSince: ago(3 * time.Hour), Dropped: 7,
		Transitions: []*sandboxv1.ServiceTransition{
			step(time.Hour, 1, "NotObserved", sandboxv1.TransitionCause_TRANSITION_CAUSE_CONFIGURATION),
			step(time.Hour-time.Second, 2, "OK", sandboxv1.TransitionCause_TRANSITION_CAUSE_REPORT),
			failed,
			step(25*time.Minute, 1, "Stale", sandboxv1.TransitionCause_TRANSITION_CAUSE_AGE),
			step(20*time.Minute, 1, "SupervisorDisconnected", sandboxv1.TransitionCause_TRANSITION_CAUSE_SESSION),
			step(10*time.Minute, 1, "SandboxStopped", sandboxv1.TransitionCause_TRANSITION_CAUSE_LIFECYCLE),
			step(5*time.Minute, 1, "SupervisorDisconnected", sandboxv1.TransitionCause_TRANSITION_CAUSE_GATEWAY_STARTED),
			step(time.Minute, 2, "OK", 99),
		},
	}
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
