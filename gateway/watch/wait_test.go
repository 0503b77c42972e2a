// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

const (
	unknown   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN
	healthy   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY
	unhealthy = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY
)

type waited struct {
	resp *sandboxv1.WaitServiceResponse
	err  error
}

// wait begins a wait for the service of that name of web.
func (w *world) wait(ctx context.Context, name string, timeout time.Duration, states ...openshellv1.ServiceHealthState) <-chan waited {
	r := &sandboxv1.WaitServiceRequest{Sandbox: "web", Name: name, States: states}
	if timeout >= 0 {
		r.Timeout = durationpb.New(timeout)
	}
	done := make(chan waited, 1)
	go func() {
		resp, err := w.WaitService(ctx, r)
		done <- waited{resp, err}
	}()
	testkit.Wait()
	return done
}

const forEver = -1

func TestWaitReaches(t *testing.T) {
	for name, tt := range map[string]struct {
		states []openshellv1.ServiceHealthState
		do     func(*world)
		want   string
		after  time.Duration
	}{
		"healthy":         {nil, func(w *world) { testkit.Advance(time.Minute); w.report("web", probe.Healthy, probe.OK) }, "HEALTHY OK", time.Minute},
		"already unknown": {[]openshellv1.ServiceHealthState{unknown}, func(*world) {}, "UNKNOWN NotObserved", 0},
		"unhealthy":       {[]openshellv1.ServiceHealthState{unhealthy}, func(w *world) { w.report("web", probe.Unhealthy, probe.Refused) }, "UNHEALTHY Refused", 0},
		"either":          {[]openshellv1.ServiceHealthState{unhealthy, healthy}, func(w *world) { w.report("web", probe.Healthy, probe.OK) }, "HEALTHY OK", 0},
		"healthy after a new configuration": {nil, func(w *world) {
			w.expose("web", "")
			testkit.Wait()
			w.report("web", probe.Healthy, probe.OK)
		}, "HEALTHY OK", 0},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				w := newWorld(t).run()
				w.put("web", nil)
				w.expose("web", "")
				w.connect("web", "a")
				testkit.Wait()
				done := w.wait(t.Context(), "", forEver, tt.states...)
				tt.do(w)
				r := <-done
				if r.err != nil {
					t.Fatal(r.err)
				}
				if got := words(&sandboxv1.WatchedService{Service: r.resp.GetService()}); got != "web/ "+tt.want || r.resp.GetElapsed().AsDuration() != tt.after {
					t.Errorf("%q after %v, want %q after %v", got, r.resp.GetElapsed().AsDuration(), tt.want, tt.after)
				}
				if r.resp.GetSandboxPhase() != openshellv1.SandboxPhase_SANDBOX_PHASE_READY {
					t.Errorf("phase %v", r.resp.GetSandboxPhase())
				}
			})
		})
	}
}

// A healthy service that ages ends the wait for UNKNOWN by itself, with nothing
// else of the server running.
func TestWaitForAge(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		done := w.wait(t.Context(), "", forEver, unknown)
		w.end()
		r := <-done
		if after := r.resp.GetElapsed().AsDuration(); r.err != nil || after < 15*time.Second || after > 15500*time.Millisecond {
			t.Errorf("after %v: %v, %v", after, r.resp, r.err)
		}
	})
}

func TestWaitFails(t *testing.T) {
	exit := int32(3)
	lost := int32(-1)
	for name, tt := range map[string]struct {
		do    func(*world)
		cause sandboxv1.WaitFailureCause
		text  string
		last  string
		after time.Duration
	}{
		"time is over": {
			func(*world) {}, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT,
			`service "docs" of sandbox "web" in workspace "default" was not HEALTHY within 5s; last seen UNKNOWN (NotObserved)`, "NotObserved", 5 * time.Second,
		},
		"never passed": {
			func(w *world) { w.report("web", probe.Unhealthy, probe.BadStatus) }, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT,
			"last seen UNHEALTHY (BadStatus)", "BadStatus", 5 * time.Second,
		},
		"stopping": {
			func(w *world) { w.put("web", func(s *store.Sandbox) { s.Lifecycle = store.Stopping }) },
			sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_STOPPED,
			`service "docs" of sandbox "web" in workspace "default" will not be HEALTHY: after 0s the sandbox is stopped; last seen UNKNOWN (SandboxNotReady)`, "SandboxNotReady", 0,
		},
		"stopped": {
			func(w *world) { w.put("web", func(s *store.Sandbox) { s.Lifecycle = store.Stopped }) },
			sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_STOPPED, "the sandbox is stopped", "SandboxStopped", 0,
		},
		"being deleted": {
			func(w *world) { w.put("web", func(s *store.Sandbox) { s.Lifecycle = store.Deleting }) },
			sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED, "the sandbox is deleted", "SandboxNotReady", 0,
		},
		"deleted": {
			func(w *world) { w.drop("web") },
			sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED, "the sandbox is deleted", "NotObserved", 0,
		},
		"service deleted": {
			func(w *world) { w.unexpose("web", "docs") },
			sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SERVICE_DELETED, "the service is deleted", "NotObserved", 0,
		},
		"exited": {
			func(w *world) { w.put("web", func(s *store.Sandbox) { s.ExitCode = &exit }) },
			sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_MAIN_PROCESS_EXITED, "the main process has ended with status 3", "SandboxNotReady", 0,
		},
		"exited, nobody saw how": {
			func(w *world) { w.put("web", func(s *store.Sandbox) { s.ExitCode = &lost }) },
			sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_MAIN_PROCESS_EXITED, "with an unknown status", "SandboxNotReady", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				w := newWorld(t).run()
				w.put("web", nil)
				w.expose("web", "docs", "other")
				w.connect("web", "a")
				testkit.Wait()
				done := w.wait(t.Context(), "docs", 5*time.Second)
				tt.do(w)
				r := <-done
				code := codes.FailedPrecondition
				if tt.cause == sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT {
					code = codes.DeadlineExceeded
				}
				if status.Code(r.err) != code || !strings.Contains(r.err.Error(), tt.text) {
					t.Errorf("%v, want %v with %q", r.err, code, tt.text)
				}
				details := status.Convert(r.err).Details()
				if len(details) != 1 {
					t.Fatalf("details %v", details)
				}
				f := details[0].(*sandboxv1.WaitFailure)
				if f.GetCause() != tt.cause || f.GetWorkspace() != "default" || f.GetSandbox() != "web" || f.GetName() != "docs" ||
					len(f.GetStates()) != 1 || f.GetElapsed().AsDuration() != tt.after || f.GetLastHealth().GetReason() != tt.last {
					t.Errorf("details %v", f)
				}
				if code := f.GetExitCode(); strings.HasPrefix(name, "exited") != (f.ExitCode != nil) || code != 0 && code != exit && code != lost {
					t.Errorf("exit code %v", f.ExitCode)
				}
			})
		})
	}
}

// Stopped is what it waits for: UNKNOWN.
func TestWaitForUnknownOfAStoppedSandbox(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		testkit.Wait()
		done := w.wait(t.Context(), "", forEver, unknown)
		w.put("web", func(s *store.Sandbox) { s.Lifecycle = store.Stopped })
		if r := <-done; r.err != nil {
			t.Error(r.err)
		}
	})
}

// The answer leaves so early that it arrives before the caller's deadline.
func TestWaitAnswersBeforeTheDeadline(t *testing.T) {
	for deadline, after := range map[time.Duration]time.Duration{
		time.Second:            900 * time.Millisecond,
		time.Minute:            time.Minute - answerEarly,
		100 * time.Millisecond: 90 * time.Millisecond,
	} {
		testkit.Bubble(t, func(t *testing.T) {
			w := newWorld(t).run()
			w.put("web", nil)
			w.expose("web", "")
			testkit.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			began := time.Now()
			r := <-w.wait(ctx, "", time.Hour)
			if took := time.Since(began); status.Code(r.err) != codes.DeadlineExceeded || took != after || len(status.Convert(r.err).Details()) != 1 {
				t.Errorf("deadline %v: %v after %v", deadline, r.err, took)
			}
		})
	}
}

func TestWaitRefusals(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		testkit.Wait()
		everywhere := &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_AllWorkspaces{AllWorkspaces: &datamodelv1.AllWorkspaces{}}}
		for name, tt := range map[string]struct {
			r    *sandboxv1.WaitServiceRequest
			code codes.Code
			text string
		}{
			"no sandbox named": {&sandboxv1.WaitServiceRequest{}, codes.InvalidArgument, "sandbox: is empty"},
			"a bad name":       {&sandboxv1.WaitServiceRequest{Sandbox: "web", Name: "A"}, codes.InvalidArgument, `name: "A" contains 'A'`},
			"all workspaces":   {&sandboxv1.WaitServiceRequest{Sandbox: "web", WorkspaceScope: everywhere}, codes.InvalidArgument, "workspace_scope"},
			"unspecified":      {&sandboxv1.WaitServiceRequest{Sandbox: "web", States: make([]openshellv1.ServiceHealthState, 1)}, codes.InvalidArgument, "states[0]: 0 is not a state"},
			"an unknown state": {&sandboxv1.WaitServiceRequest{Sandbox: "web", States: []openshellv1.ServiceHealthState{healthy, 9}}, codes.InvalidArgument, "states[1]: 9 is not a state"},
			"negative":         {&sandboxv1.WaitServiceRequest{Sandbox: "web", Timeout: durationpb.New(-1)}, codes.InvalidArgument, "timeout: is not a duration"},
			"no such sandbox":  {&sandboxv1.WaitServiceRequest{Sandbox: "none"}, codes.NotFound, `sandbox "none" in workspace "default" does not exist`},
			"no such service":  {&sandboxv1.WaitServiceRequest{Sandbox: "web", Name: "none"}, codes.NotFound, `service "none" of sandbox "web"`},
			"no time":          {&sandboxv1.WaitServiceRequest{Sandbox: "web", States: []openshellv1.ServiceHealthState{unhealthy}, Timeout: &durationpb.Duration{}}, codes.DeadlineExceeded, "within 0s"},
		} {
			if _, err := w.WaitService(t.Context(), tt.r); status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v, want %v with %q", name, err, tt.code, tt.text)
			}
		}
		if w.Waits() != 0 || len(w.callers.by) != 0 {
			t.Errorf("%d waits are left", w.Waits())
		}
	})
}

// A state counts once, however often it is named: what a failure says of it has
// to fit into the end of a call.
func TestWaitForOneStateManyTimes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.healthy("web", "")
		testkit.Wait()
		states := slices.Repeat([]openshellv1.ServiceHealthState{unhealthy, unknown}, 50_000)
		g, err := goalOf(&sandboxv1.WaitServiceRequest{Sandbox: "web", States: states})
		if err != nil || !slices.Equal(g.states, states[:2]) {
			t.Errorf("%d states, %v", len(g.states), err)
		}
		_, err = w.WaitService(t.Context(), &sandboxv1.WaitServiceRequest{Sandbox: "web", States: states, Timeout: &durationpb.Duration{}})
		if want := "was not UNHEALTHY or UNKNOWN within 0s"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200v, want %q", err, want)
		}
	})
}

// A service that was exposed before the wait began is known to it.
func TestWaitKnowsWhatWasStored(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		for range 100 {
			w.put("web", nil)
			w.expose("web", "")
			if _, err := w.WaitService(t.Context(), &sandboxv1.WaitServiceRequest{Sandbox: "web", States: []openshellv1.ServiceHealthState{unknown}}); err != nil {
				t.Fatal(err)
			}
			w.drop("web")
			if _, err := w.WaitService(t.Context(), &sandboxv1.WaitServiceRequest{Sandbox: "web"}); status.Code(err) != codes.NotFound {
				t.Fatal(err)
			}
		}
	})
}

// Canceled waits leak nothing; the bubble would not end with a goroutine left.
func TestWaitCanceled(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.put("web", nil)
		w.expose("web", "")
		testkit.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var all []<-chan waited
		for range 1000 {
			all = append(all, w.wait(ctx, "", forEver))
		}
		if w.Waits() != 1000 {
			t.Errorf("%d waits", w.Waits())
		}
		cancel()
		for _, done := range all {
			if r := <-done; status.Code(r.err) != codes.Canceled {
				t.Fatal(r.err)
			}
		}
		if w.Waits() != 0 || len(w.callers.by)+len(w.callers.wide) != 0 {
			t.Errorf("%d waits are left", w.Waits())
		}
	})
}
