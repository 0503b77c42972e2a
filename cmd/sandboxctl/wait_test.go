// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// poll calls f until it says that it is done, or the test ends.
func poll(t *testing.T, f func() bool) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !f() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// boot makes a sandbox ready, and its services healthy, once it is created.
func (f *fixture) boot(t *testing.T, name string) {
	poll(t, func() bool {
		resp, err := f.GetSandbox(t.Context(), &openshellv1.GetSandboxRequest{Name: name})
		if err != nil {
			return false
		}
		list, err := f.ListServices(t.Context(), &openshellv1.ListServicesRequest{Sandbox: name})
		if err != nil {
			return false
		}
		sandbox := resp.GetSandbox()
		sandbox.Status.Phase = openshellv1.SandboxPhase_SANDBOX_PHASE_READY
		f.PutSandbox(sandbox)
		for _, s := range list.GetServices() {
			f.SetHealth("", name, s.GetEndpoint().GetName(), health(2, "OK", 200, 0))
		}
		return true
	})
}

func TestWaitExitCodes(t *testing.T) {
	for _, tt := range []struct {
		line string
		do   func(*fixture)
		exit int
		want string
	}{
		{"service wait api", nil, exitTimeout, "UNHEALTHY (Refused)"},
		{"service wait api", func(f *fixture) { f.SetHealth("", "api", "", health(2, "OK", 200, 0)) }, exitDone, "Unnamed service of api is Responsive after "},
		{"service wait web docs --for unhealthy", func(f *fixture) { f.SetHealth("", "web", "docs", unhealthy("Timeout", 0)) }, exitDone, "Service docs of web is Not ready after "},
		{"service wait web docs --for unknown,unhealthy", func(f *fixture) { f.SetHealth("", "web", "docs", nil) }, exitTimeout, "`sandboxctl service history web docs`"},
		{"service wait old", nil, exitFailed, "SANDBOX_STOPPED"},
		{"service wait api admin", func(f *fixture) {
			f.DeleteService(context.Background(), &openshellv1.DeleteServiceRequest{Sandbox: "api", Name: "admin"})
		}, exitFailed, "service deleted"},
		{"service wait web nothing", nil, exitNotFound, `has no service "nothing"`},
	} {
		t.Run(tt.line+" "+tt.want, func(t *testing.T) {
			f := newFixture(t)
			f.fill()
			// api is in phase ERROR, in which nothing is waited for.
			s, err := f.GetSandbox(t.Context(), &openshellv1.GetSandboxRequest{Name: "api"})
			if err != nil {
				t.Fatal(err)
			}
			s.Sandbox.Status.Phase = openshellv1.SandboxPhase_SANDBOX_PHASE_READY
			f.PutSandbox(s.GetSandbox())
			timeout := "30s"
			if tt.do == nil {
				timeout = "50ms"
			} else if tt.exit == exitTimeout {
				timeout = "300ms"
			}
			if tt.do != nil {
				poll(t, func() bool {
					if f.Watches() == 0 {
						return false
					}
					tt.do(f)
					return true
				})
			}
			got := f.run(t, append(strings.Fields(tt.line), "--timeout", timeout)...)
			if text := got.out + got.err; got.code != tt.exit || !strings.Contains(strings.ToLower(text), strings.ToLower(strings.ReplaceAll(tt.want, "_", " "))) {
				t.Errorf("exit %d, want %d with %q:\n%s", got.code, tt.exit, tt.want, text)
			}
			if (got.code == exitDone) != (got.out != "") {
				t.Errorf("stdout: %q", got.out)
			}
			if n := f.Watches(); n != 0 {
				t.Errorf("%d calls are left", n)
			}
		})
	}
}

// On a terminal a wait says what it waits for, on one line of standard error
// that it takes away.
func TestWaitProgress(t *testing.T) {
	f := newFixture(t)
	f.fill()
	f.tty, f.width = true, 60
	poll(t, func() bool {
		if f.Watches() < 2 { // the wait, and the watch that the line is drawn from
			return false
		}
		f.SetHealth("", "new", "next", health(2, "OK", 200, 0))
		return true
	})
	got := f.run(t, "service", "wait", "new", "next")
	if got.code != exitDone || !strings.Contains(got.out, "Responsive") {
		t.Fatalf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if !strings.HasPrefix(got.err, "\rWaiting for service next of new: ") || !strings.HasSuffix(got.err, "\r\x1b[K") || strings.Contains(got.err, "\n") {
		t.Errorf("progress: %q", got.err)
	}
	for line := range strings.SplitSeq(got.err, "\r") {
		if cellWidth(uncolour(line)) >= 60 {
			t.Errorf("a line is %d wide", cellWidth(uncolour(line)))
		}
	}
	f.tty = false
	if got := f.run(t, "service", "wait", "new", "next"); got.err != "" {
		t.Errorf("without a terminal: %q", got.err)
	}
}

func TestCreateWaits(t *testing.T) {
	for _, tt := range []struct {
		line  string
		phase openshellv1.SandboxPhase // 0: it comes up
		exit  int
		want  string
	}{
		{"sandbox create shop --wait", 0, exitDone, "Sandbox shop is Ready after "},
		{"sandbox create shop --wait --expose 80 --expose docs=81", 0, exitDone, "Unnamed service of shop is Responsive after "},
		{"sandbox create shop --wait --expose 80 --expose-readiness-path /", 0, exitDone, "Unnamed service of shop is Ready after "},
		{"sandbox create shop --wait --timeout 100ms", openshellv1.SandboxPhase_SANDBOX_PHASE_PROVISIONING, exitTimeout, "sandbox shop was not Ready within "},
		{"sandbox create shop --wait --expose 80 --timeout 100ms", openshellv1.SandboxPhase_SANDBOX_PHASE_PROVISIONING, exitTimeout, "last seen UNKNOWN (NotObserved)"},
		{"sandbox create shop --wait", openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, exitFailed, "sandbox shop will not be Ready: it is Error"},
		{"sandbox create shop --wait --expose 80", openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR, exitFailed, "main process exited"},
	} {
		for _, tty := range []bool{false, true} {
			f := newFixture(t)
			f.tty, f.width = tty, 100
			switch tt.phase {
			case 0:
				f.boot(t, "shop")
			case openshellv1.SandboxPhase_SANDBOX_PHASE_ERROR:
				poll(t, func() bool {
					resp, err := f.GetSandbox(t.Context(), &openshellv1.GetSandboxRequest{Name: "shop"})
					if err == nil {
						resp.Sandbox.Status.Phase = tt.phase
						f.PutSandbox(resp.GetSandbox())
					}
					return err == nil
				})
			}
			got := f.run(t, strings.Fields(tt.line)...)
			if got.code != tt.exit || !strings.Contains(got.err, tt.want) || !strings.HasPrefix(got.out, "Sandbox shop created") {
				t.Errorf("%s: exit %d, want %d with %q:\n%s%s", tt.line, got.code, tt.exit, tt.want, got.out, got.err)
			}
		}
	}
}

// A gateway that is lost for a moment ends no wait.
func TestWaitOutlivesTheConnection(t *testing.T) {
	f := newFixture(t)
	f.fill()
	var once sync.Once
	poll(t, func() bool {
		if f.Watches() == 0 {
			return false
		}
		once.Do(func() { f.BreakWatches(status.Error(codes.Unavailable, "stopping")) })
		waits := 0
		for _, r := range f.Requests() {
			if proto.MessageName(r).Name() == "WaitServiceRequest" {
				waits++
			}
		}
		if waits > 1 {
			f.SetHealth("", "new", "", health(2, "OK", 200, 0))
		}
		return waits > 1
	})
	if got := f.run(t, "service", "wait", "new"); got.code != exitDone {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
