// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

type waited struct {
	resp *sandboxv1.WaitServiceResponse
	err  error
}

// wait begins a wait for the unnamed service of web.
func wait(ctx context.Context, c *sandbox.Client, timeout time.Duration, states ...openshellv1.ServiceHealthState) <-chan waited {
	r := &sandboxv1.WaitServiceRequest{Sandbox: "web", States: states}
	if timeout > 0 {
		r.Timeout = durationpb.New(timeout)
	}
	done := make(chan waited, 1)
	go func() {
		resp, err := c.WaitService(ctx, r)
		done <- waited{resp, err}
	}()
	testkit.Wait()
	return done
}

func newWaitGateway(t *testing.T) (*sandboxtest.Gateway, *sandbox.Client) {
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	if _, err := c.CreateSandbox(t.Context(), &openshellv1.CreateSandboxRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	putHealth(g, "", unknown, "NotObserved")
	return g, c
}

func TestWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g, c := newWaitGateway(t)
		done := wait(t.Context(), c, 0)
		testkit.Advance(time.Hour)
		putHealth(g, "", unhealthy, "Refused")
		testkit.Wait()
		putHealth(g, "", healthy, "OK")
		if r := <-done; r.err != nil || sandbox.HealthOf(r.resp.GetService()).State != sandbox.HealthHealthy || r.resp.GetElapsed().AsDuration() != time.Hour {
			t.Errorf("%v, %v", r.resp, r.err)
		}
		if r := <-wait(t.Context(), c, time.Second, unhealthy, healthy); r.err != nil || r.resp.GetElapsed().AsDuration() != 0 {
			t.Errorf("what is so already: %v, %v", r.resp, r.err)
		}
	})
}

// How a wait ends without its state.
func TestWaitFails(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout time.Duration
		do      func(*sandboxtest.Gateway, *sandbox.Client) error
		is      error
		cause   sandboxv1.WaitFailureCause
		elapsed time.Duration
	}{
		"timeout": {5 * time.Second, nil, sandbox.ErrTimeout, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT, 5 * time.Second},
		"stopped": {0, func(_ *sandboxtest.Gateway, c *sandbox.Client) error {
			_, err := c.StopSandbox(context.Background(), &openshellv1.StopSandboxRequest{Name: "web"})
			return err
		}, sandbox.ErrFailedPrecondition, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_STOPPED, time.Second},
		"deleted": {0, func(_ *sandboxtest.Gateway, c *sandbox.Client) error {
			_, err := c.DeleteSandbox(context.Background(), &openshellv1.DeleteSandboxRequest{Name: "web"})
			return err
		}, sandbox.ErrFailedPrecondition, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED, time.Second},
		"the gateway hangs": {5 * time.Second, func(g *sandboxtest.Gateway, _ *sandbox.Client) error {
			g.Hang("WaitService")
			g.BreakWatches(status.Error(codes.Unavailable, "stopping"))
			return nil
		}, sandbox.ErrTimeout, sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				g, c := newWaitGateway(t)
				done := wait(t.Context(), c, tt.timeout)
				testkit.Advance(time.Second)
				if tt.do != nil {
					if err := tt.do(g, c); err != nil {
						t.Fatal(err)
					}
				}
				r := <-done
				failure, ok := errors.AsType[*sandbox.WaitError](r.err)
				if !ok || !errors.Is(r.err, tt.is) {
					t.Fatalf("%v", r.err)
				}
				f := failure.Failure
				if f.GetCause() != tt.cause || f.GetSandbox() != "web" || f.GetElapsed().AsDuration() != tt.elapsed {
					t.Errorf("%v after %v", f, f.GetElapsed().AsDuration())
				}
				if heard := name != "the gateway hangs"; heard && f.GetLastHealth().GetReason() != "NotObserved" || (f.GetLastHealth() != nil) != heard {
					t.Errorf("last health %v", f.GetLastHealth())
				}
				if r.err.Error() == "" || (tt.is == sandbox.ErrTimeout) != errors.Is(r.err, context.DeadlineExceeded) {
					t.Error(r.err)
				}
				testkit.Wait()
				if n := g.Watches(); n != 0 {
					t.Errorf("%d calls are open", n)
				}
			})
		})
	}
}

// The deadline of the context is one, too.
func TestWaitDeadline(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, c := newWaitGateway(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		r := <-wait(ctx, c, 0)
		if failure, ok := errors.AsType[*sandbox.WaitError](r.err); !ok || failure.Failure.GetElapsed().AsDuration() != 3*time.Second {
			t.Errorf("%v", r.err)
		}
	})
}

// A wait outlives its gateway, and its time does not begin anew.
func TestWaitReconnects(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g, c := newWaitGateway(t)
		done := wait(t.Context(), c, 30*time.Second)
		testkit.Advance(10 * time.Second)
		stopping := status.Error(codes.Unavailable, "stopping")
		g.Fail("WaitService", stopping)
		g.BreakWatches(stopping)
		testkit.Advance(2 * time.Second)
		g.Fail("WaitService", nil)
		r := <-done
		failure, ok := errors.AsType[*sandbox.WaitError](r.err)
		if !ok || failure.Failure.GetElapsed().AsDuration() != 30*time.Second || failure.Failure.GetLastHealth().GetReason() != "NotObserved" {
			t.Errorf("%v", r.err)
		}
	})
}

// A canceled wait leaves nothing behind, neither here nor there.
func TestWaitCanceled(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g, c := newWaitGateway(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all []<-chan waited
		for range 100 {
			all = append(all, wait(ctx, c, 0))
		}
		if n := g.Watches(); n != 100 {
			t.Fatalf("%d waits", n)
		}
		cancel()
		for _, done := range all {
			if r := <-done; !errors.Is(r.err, sandbox.ErrCanceled) || !errors.Is(r.err, context.Canceled) {
				t.Fatal(r.err)
			}
		}
		testkit.Wait()
		if n := g.Watches(); n != 0 {
			t.Errorf("%d waits are left", n)
		}
	})
}

func TestWaitErrors(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	if _, err := c.WaitService(t.Context(), &sandboxv1.WaitServiceRequest{Sandbox: "none"}); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("no such service: %v", err)
	}
	// Nobody is there from the beginning: not something to wait for.
	nobody, err := sandbox.Dial(t.Context(), sandbox.Options{
		Address: "http://localhost:1",
		Dialer:  func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody is there") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if _, err := nobody.WaitService(t.Context(), &sandboxv1.WaitServiceRequest{Sandbox: "web"}); !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("no gateway: %v", err)
	}
}

func TestServiceTransitions(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{})
	c := sandboxtest.Start(t, g)
	putHealth(g, "", healthy, "OK")
	g.PutTransitions("", "web", "", &sandboxv1.ListServiceTransitionsResponse{
		RecordedSince: timestamppb.Now(), Transitions: []*sandboxv1.ServiceTransition{{ToState: healthy}},
	})
	r, err := c.ServiceTransitions(t.Context(), &sandboxv1.ListServiceTransitionsRequest{Sandbox: "web"})
	if err != nil || len(r.GetTransitions()) != 1 || r.GetService() == nil {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := c.ServiceTransitions(t.Context(), &sandboxv1.ListServiceTransitionsRequest{Sandbox: "none"}); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("no such service: %v", err)
	}
}
