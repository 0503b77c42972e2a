// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
)

func (w *world) sandbox(name string) *openshellv1.Sandbox {
	w.t.Helper()
	return must[*openshellv1.SandboxResponse](w, &getReq{Name: name}).GetSandbox()
}

func TestCreateAnswersWhatIsStored(t *testing.T) {
	w := newWorld(t)
	s := &spec{
		LogLevel: "debug", Environment: map[string]string{"A": "b\nc"}, Command: []string{"sh", "-c", "exit 3\n"}, Tty: true,
		Template: &openshellv1.SandboxTemplate{Image: "registry/img:1"},
	}
	r := must[*openshellv1.SandboxResponse](w, &createReq{
		Name: "web", WorkspaceScope: workspace("team"), Spec: s,
		Labels: map[string]string{"k": "v"}, Annotations: map[string]string{DriverAnnotation: "local"},
		ServiceExposures: []*exposure{{TargetPort: 80}, {Service: "api", TargetPort: 90}},
	})
	sb, m := r.GetSandbox(), r.GetSandbox().GetMetadata()
	if !proto.Equal(sb.GetSpec(), s) {
		t.Errorf("spec %v, want %v", sb.GetSpec(), s)
	}
	if m.GetId() == "" || m.GetName() != "web" || m.GetWorkspace() != "team" || m.GetLabels()["k"] != "v" || m.GetAnnotations()[DriverAnnotation] != "local" ||
		m.GetResourceVersion() == 0 || !m.GetCreatedTime().AsTime().Equal(w.clock()) || m.DeletionTime != nil {
		t.Errorf("metadata %v", m)
	}
	urls := map[string]string{"": "http://team--web.sandbox.localhost:17680/", "api": "http://team--web--api.sandbox.localhost:17680/"}
	if !reflect.DeepEqual(r.GetServiceUrls(), urls) {
		t.Errorf("urls %q", r.GetServiceUrls())
	}
	got := must[*openshellv1.SandboxResponse](w, &getReq{Name: "web", WorkspaceScope: workspace("team")})
	if !proto.Equal(got.GetSandbox(), sb) || got.ServiceUrls != nil {
		t.Errorf("read %v\nwant %v without urls", got, sb)
	}
	// The same name elsewhere is another sandbox.
	if other := w.create("web"); other.GetMetadata().GetId() == m.GetId() || other.GetMetadata().GetWorkspace() != "default" {
		t.Errorf("the other: %v", other)
	}
}

// life is what clients see of a sandbox at one moment.
type life struct {
	phase     string
	condition string // of type Ready: status, reason and message
	health    string // the reason of its one service
	hint      bool
}

func (w *world) see(name string) life {
	w.t.Helper()
	st := w.sandbox(name).GetStatus()
	ready := st.GetConditions()[0]
	if ready.GetType() != "Ready" || !ready.GetTransitionTime().IsValid() {
		w.t.Errorf("first condition %v", ready)
	}
	l := life{
		phase:     st.GetPhase().String()[len("SANDBOX_PHASE_"):],
		condition: fmt.Sprintf("%s %s: %s", ready.GetStatus(), ready.GetReason(), ready.GetMessage()),
		health:    w.service(name, "").GetHealth().GetReason(),
	}
	for _, c := range st.GetConditions()[1:] {
		l.hint = c.GetType() == "Runtime" && c.GetMessage() == "boot it yourself"
	}
	return l
}

func (w *world) wantLife(when string, want life) {
	w.t.Helper()
	if got := w.see("web"); got != want {
		w.t.Errorf("%s: %+v\nwant %+v", when, got, want)
	}
}

func TestPhases(t *testing.T) {
	w := newWorld(t)
	id := w.create("web", &exposure{TargetPort: 80}).GetMetadata().GetId()
	const awaiting, live = "False AwaitingAgent: no agent has connected yet", "True SessionLive: the agent is connected"
	w.wantLife("created", life{"PROVISIONING", awaiting, "SandboxNotReady", true})

	connect := func(generation uint64, instance string) {
		t.Helper()
		w.agent(id, instance)
		if err := w.lifecycle.Connected(t.Context(), id, generation, instance); err != nil {
			t.Fatal(err)
		}
	}
	connect(1, "one")
	w.wantLife("connected", life{"READY", live, "NotObserved", false})
	if got := w.sandbox("web").GetStatus().GetMainProcessInstanceId(); got != "one" {
		t.Errorf("instance %q", got)
	}
	w.cache.Disconnected(id, 1, time.Now())
	w.wantLife("just lost", life{"READY", "True SessionLost: the agent was connected until a moment ago", "SupervisorDisconnected", false})
	w.agent(id, "one")
	w.cache.Disconnected(id, 1, time.Now().Add(-health.Grace))
	w.wantLife("lost", life{"UNKNOWN", "Unknown SessionLost: the agent is not connected", "SupervisorDisconnected", false})

	must[proto.Message](w, &stopReq{Name: "web"})
	w.wantLife("stopped", life{"STOPPED", "False Stopped: the sandbox is stopped", "SandboxStopped", false})
	must[proto.Message](w, &startReq{Name: "web"})
	w.wantLife("started", life{"STARTING", awaiting, "SandboxNotReady", true})
	connect(2, "two")
	w.wantLife("connected again", life{"READY", live, "NotObserved", false})

	if err := w.lifecycle.Exited(t.Context(), id, 2, 3); err != nil {
		t.Fatal(err)
	}
	w.wantLife("exited", life{"ERROR", "False MainProcessExited: the main process has ended with status 3", "SandboxNotReady", false})
	if code := w.sandbox("web").GetStatus().ExitCode; code == nil || *code != 3 {
		t.Errorf("exit code %v", code)
	}
	connect(2, "three")
	w.wantLife("a new life", life{"READY", live, "NotObserved", false})
	if err := w.lifecycle.Exited(t.Context(), id, 2, runtime.CodeUnknown); err != nil {
		t.Fatal(err)
	}
	w.wantLife("exited unobserved", life{"ERROR", "False MainProcessExited: the main process has ended with an unknown status", "SandboxNotReady", false})

	w.driver.before = func(string) error { return runtime.ErrClosed }
	for _, req := range []proto.Message{&stopReq{Name: "web"}, &deleteReq{Name: "web"}} {
		if _, err := w.call(req); err == nil {
			t.Errorf("%T did not fail", req)
		}
		if _, stopping := req.(*stopReq); stopping {
			w.wantLife("stopping", life{"STOPPING", "False Stopping: the sandbox is stopping", "SandboxNotReady", false})
		}
	}
	w.wantLife("deleting", life{"DELETING", "False Deleting: the sandbox is deleting", "SandboxNotReady", false})
}

// After a restart of the gateway nothing is in the cache; a sandbox that was
// connected has the same grace as one whose session has just ended.
func TestPhaseAfterARestart(t *testing.T) {
	w := newWorld(t)
	id := w.create("web").GetMetadata().GetId()
	if err := w.lifecycle.Connected(t.Context(), id, 1, "one"); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]openshellv1.SandboxPhase{
		0:                             openshellv1.SandboxPhase_SANDBOX_PHASE_READY,
		health.Grace - 5*time.Second:  openshellv1.SandboxPhase_SANDBOX_PHASE_READY,
		health.Grace + time.Second/10: openshellv1.SandboxPhase_SANDBOX_PHASE_UNKNOWN,
	} {
		w.started = time.Now().Add(-age)
		r, err := w.server().GetSandbox(t.Context(), &getReq{Name: "web"})
		if err != nil || r.GetSandbox().GetStatus().GetPhase() != want || r.GetSandbox().GetStatus().GetMainProcessInstanceId() != "one" {
			t.Errorf("%v after the restart: %v, %v, want %v", age, r.GetSandbox().GetStatus(), err, want)
		}
	}
}

// The transition time is when the phase was left, not when it is read.
func TestTransitionTimes(t *testing.T) {
	w := newWorld(t)
	id := w.create("web").GetMetadata().GetId()
	at := func() time.Time {
		return w.sandbox("web").GetStatus().GetConditions()[0].GetTransitionTime().AsTime()
	}
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return w.lifecycle.Connected(t.Context(), id, 1, "one") },
		func() error { return w.lifecycle.Exited(t.Context(), id, 1, 1) },
		func() error { _, err := w.call(&startReq{Name: "web"}); return err },
		func() error { _, err := w.call(&stopReq{Name: "web"}); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		want := w.clock()
		w.advance(time.Minute)
		if got := at(); !got.Equal(want) {
			t.Errorf("transition at %v, want %v", got, want)
		}
	}
}

func TestNoHintForWhatTheGatewayBoots(t *testing.T) {
	w := newWorld(t)
	must[proto.Message](w, &createReq{Name: "web", Annotations: map[string]string{DriverAnnotation: "local"}, ServiceExposures: []*exposure{{TargetPort: 80}}})
	if got := w.see("web"); got.hint || got.phase != "PROVISIONING" {
		t.Errorf("%+v", got)
	}
}

// What a driver says reaches the client where the client can do something
// about it; in any case nothing is left.
func TestCreateThatDoesNotBoot(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		err     error
		code    codes.Code
		message string
	}{
		{fmt.Errorf("local sandbox: %w: user namespaces are refused", runtime.ErrUnsupported), codes.FailedPrecondition, "local sandbox: not supported on this machine: user namespaces are refused"},
		{fmt.Errorf("start: %w", runtime.ErrRunning), codes.FailedPrecondition, "start: the sandbox is running"},
		{fmt.Errorf("name: %w: must be short", runtime.ErrInvalid), codes.InvalidArgument, "name: invalid: must be short"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, `sandbox "web" in workspace "default": not finished in time; read it to see what became of it`},
	} {
		before := w.everything()
		w.driver.before = func(op string) error {
			if op == "start" {
				return c.err
			}
			return nil
		}
		_, err := w.call(&createReq{Name: "web", ServiceExposures: []*exposure{{TargetPort: 80}}})
		wantError(t, "create", err, c.code, c.message)
		after := w.everything()
		before.driver, after.driver = nil, nil
		if !reflect.DeepEqual(before, after) {
			t.Errorf("left %+v", after)
		}
	}
}

func TestCallerThatLeaves(t *testing.T) {
	w := newWorld(t)
	w.create("web")
	entered, release := make(chan struct{}), make(chan struct{})
	w.driver.before = func(string) error {
		close(entered)
		<-release
		return nil
	}
	ctx, leave := context.WithCancel(admin(t.Context()))
	done := make(chan error, 1)
	go func() { _, err := w.StopSandbox(ctx, &stopReq{Name: "web"}); done <- err }()
	<-entered
	leave()
	if err := <-done; err == nil {
		t.Error("the caller got an answer")
	}
	close(release)
	w.lifecycle.Wait(t.Context())
	if phase := w.sandbox("web").GetStatus().GetPhase(); phase != openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED {
		t.Errorf("phase %v", phase)
	}
}

func TestURL(t *testing.T) {
	for want, u := range map[string]URLs{
		"http://w--s--n.sandbox.localhost:17680/": {"http", "sandbox.localhost", "17680"},
		"http://w--s--n.sandbox.localhost/":       {"http", "sandbox.localhost", "80"},
		"https://w--s--n.example.com/":            {"https", "example.com", "443"},
		"https://w--s--n.example.com:80/":         {"https", "example.com", "80"},
		"http://w--s--n.example.com:443/":         {"http", "example.com", "443"},
		"https://w--s--n.example.org/":            {"https", "example.org", ""},
	} {
		if got := u.URL("w", "s", "n"); got != want {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
	if got := (URLs{"http", "d", "80"}).URL("w", "s", ""); got != "http://w--s.d/" {
		t.Errorf("the unnamed service: %q", got)
	}
}

// ErrInternal text stays in the log.
func TestUnexpectedErrors(t *testing.T) {
	s, logged := loggingServer()
	secretive := errors.New("disk /secret/path failed")
	err := s.fail("the list of sandboxes", fmt.Errorf("list: %w", secretive))
	wantError(t, "unexpected", err, codes.Internal, "the list of sandboxes: the gateway could not do it; its log says why")
	if got := logged(); got != "request failed the list of sandboxes list: disk /secret/path failed" {
		t.Errorf("logged %q", got)
	}
	if s.fail("x", nil) != nil {
		t.Error("no error became one")
	}
	if again := s.fail("x", err); !errors.Is(again, err) {
		t.Errorf("a status was changed to %v", again)
	}
}
