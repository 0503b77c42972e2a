// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

// putHealth stores a service of the sandbox web with a health.
func putHealth(g *sandboxtest.Gateway, name string, state openshellv1.ServiceHealthState, reason string) {
	g.PutService(
		&openshellv1.ServiceEndpoint{
			Metadata: &datamodelv1.ObjectMeta{Id: "id-of-" + name, Workspace: "default"}, Sandbox: "web", Name: name, TargetPort: 80,
		},
		&openshellv1.ServiceHealth{State: state, Reason: reason, LastCheckedTime: timestamppb.Now()},
	)
}

const (
	unknown   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNKNOWN
	healthy   = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY
	unhealthy = openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_UNHEALTHY
)

// words renders services as "name state Reason".
func words(list []sandbox.WatchedService) []string {
	out := []string{}
	for _, s := range list {
		h := s.Health()
		out = append(out, fmt.Sprintf("%s %v %s", s.Service.GetEndpoint().GetName(), h.State, h.Reason))
	}
	return out
}

// next returns the next update, which has to come within limit.
func next(t *testing.T, w *sandbox.ServiceWatch, limit time.Duration) sandbox.ServiceUpdate {
	t.Helper()
	type result struct {
		u   sandbox.ServiceUpdate
		err error
	}
	c := make(chan result, 1)
	go func() {
		u, err := w.Next()
		c <- result{u, err}
	}()
	select {
	case r := <-c:
		if r.err != nil {
			t.Fatalf("the watch has ended: %v", r.err)
		}
		return r.u
	case <-time.After(limit):
		t.Fatalf("no update within %v", limit)
		panic("not reached")
	}
}

func wantUpdate(t *testing.T, what string, u sandbox.ServiceUpdate, connected bool, changed, removed []string) {
	t.Helper()
	if got := words(u.Changed); !slices.Equal(got, changed) || u.Connected != connected {
		t.Errorf("%s: changed %q, connected %v; want %q, %v", what, got, u.Connected, changed, connected)
	}
	if got := words(u.Removed); !slices.Equal(got, removed) {
		t.Errorf("%s: removed %q, want %q", what, got, removed)
	}
	if (u.Err == nil) != connected {
		t.Errorf("%s: error %v while connected is %v", what, u.Err, connected)
	}
}

func TestWatch(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := sandboxtest.New(sandboxtest.Options{Token: "t0ken"})
		c := sandboxtest.Start(t, g)
		putHealth(g, "a", healthy, "OK")
		putHealth(g, "b", unknown, "NotObserved")
		w := c.WatchServices(t.Context(), &sandboxv1.WatchServicesRequest{Sandbox: "web"})
		defer w.Close()
		wantUpdate(t, "the full state", next(t, w, time.Second), true, []string{"a healthy OK", "b unknown NotObserved"}, []string{})
		putHealth(g, "b", unhealthy, "Refused")
		wantUpdate(t, "a change", next(t, w, time.Second), true, []string{"b unhealthy Refused"}, []string{})
		if _, err := c.DeleteService(t.Context(), &openshellv1.DeleteServiceRequest{Sandbox: "web", Name: "a"}); err != nil {
			t.Fatal(err)
		}
		wantUpdate(t, "a deletion", next(t, w, time.Second), true, []string{}, []string{"a healthy OK"})

		// Of what comes and goes between two calls the newest is told.
		putHealth(g, "b", healthy, "OK")
		testkit.Wait()
		putHealth(g, "b", unhealthy, "BadStatus")
		testkit.Wait()
		wantUpdate(t, "two changes", next(t, w, time.Second), true, []string{"b unhealthy BadStatus"}, []string{})

		// Ten idle minutes: no news, no lost connection, and a younger age than
		// its heartbeats' interval; T08.
		quiet := make(chan error, 1)
		go func() {
			u, err := w.Next()
			quiet <- fmt.Errorf("%v %v", u, err)
		}()
		for range 150 {
			testkit.Advance(4 * time.Second)
			g.SetHealth("", "web", "b", &openshellv1.ServiceHealth{State: unhealthy, Reason: "BadStatus", LastCheckedTime: timestamppb.Now()})
			if age := time.Since(w.Services()[0].Checked); age > 6*time.Second {
				t.Errorf("age %v", age)
			}
		}
		select {
		case err := <-quiet:
			t.Errorf("an idle watch says %v", err)
		default:
		}
		if n := len(g.Requests()); n != 2 {
			t.Errorf("%d requests, want the watch and the deletion", n)
		}
		w.Close()
		if err := <-quiet; err == nil {
			t.Error("no end")
		}
		testkit.Wait()
		if n := g.Watches(); n != 0 {
			t.Errorf("%d watches are open after Close", n)
		}
		if _, err := w.Next(); !errors.Is(err, sandbox.ErrCanceled) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// T24: whatever was told counts for 15 s after the last word of the gateway;
// then it is unknown, once; and right again as soon as the gateway is back.
func TestWatchAgesByItself(t *testing.T) {
	for name, cut := range map[string]func(*sandboxtest.Gateway) (heal func()){
		"the gateway hangs": func(g *sandboxtest.Gateway) func() { return g.MuteWatches() },
		"the gateway ends": func(g *sandboxtest.Gateway) func() {
			stopping := status.Error(codes.Unavailable, "stopping")
			g.Fail("WatchServices", stopping)
			g.BreakWatches(stopping)
			return func() { g.Fail("WatchServices", nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				g := sandboxtest.New(sandboxtest.Options{})
				c := sandboxtest.Start(t, g)
				putHealth(g, "", healthy, "OK")
				w := c.WatchServices(t.Context(), nil)
				defer w.Close()
				wantUpdate(t, "the full state", next(t, w, time.Second), true, []string{" healthy OK"}, []string{})
				testkit.Advance(9 * time.Second) // the last heartbeat is that of second 8
				heal := cut(g)
				testkit.Advance(13900 * time.Millisecond)
				if got := words(w.Services()); got[0] != " healthy OK" {
					t.Errorf("14.9 s after the last word: %q", got)
				}
				testkit.Advance(200 * time.Millisecond)
				if got := words(w.Services()); got[0] != " unknown WatchStale" {
					t.Errorf("15.1 s after the last word: %q", got)
				}
				u := next(t, w, time.Second)
				if got := words(u.Changed); !slices.Equal(got, []string{" unknown WatchStale"}) || sandbox.HealthOf(u.Changed[0].Service).State != sandbox.HealthUnknown {
					t.Errorf("the update says %q", got)
				}
				testkit.Advance(time.Hour)
				if u.Connected {
					wantUpdate(t, "then", next(t, w, time.Second), false, []string{}, []string{})
				}
				heal()
				u = next(t, w, time.Minute)
				wantUpdate(t, "back again", u, true, []string{" healthy OK"}, []string{})
			})
		})
	}
}

// After a gap the difference is told, as if there had been none.
func TestWatchReconnects(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := sandboxtest.New(sandboxtest.Options{})
		c := sandboxtest.Start(t, g)
		for _, name := range []string{"a", "b", "c"} {
			putHealth(g, name, healthy, "OK")
		}
		w := c.WatchServices(t.Context(), nil)
		defer w.Close()
		next(t, w, time.Second)
		stopping := status.Error(codes.Unavailable, "stopping")
		g.Fail("WatchServices", stopping)
		g.BreakWatches(stopping)
		wantUpdate(t, "lost", next(t, w, time.Second), false, []string{}, []string{})
		if _, err := c.DeleteService(t.Context(), &openshellv1.DeleteServiceRequest{Sandbox: "web", Name: "a"}); err != nil {
			t.Fatal(err)
		}
		putHealth(g, "b", unhealthy, "Refused")
		g.Fail("WatchServices", nil)
		wantUpdate(t, "back", next(t, w, 5*time.Second), true, []string{"b unhealthy Refused"}, []string{"a healthy OK"})
	})
}

// What repeating would not heal ends the watch; so do the context and the
// client.
func TestWatchEnds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := sandboxtest.New(sandboxtest.Options{})
		c := sandboxtest.Start(t, g)
		for code, want := range map[codes.Code]error{
			codes.InvalidArgument: sandbox.ErrInvalidArgument, codes.Unauthenticated: sandbox.ErrUnauthenticated,
			codes.PermissionDenied: sandbox.ErrPermissionDenied, codes.ResourceExhausted: sandbox.ErrResourceExhausted,
			codes.Unimplemented: sandbox.ErrUnimplemented,
		} {
			g.Fail("WatchServices", status.Error(code, "no"))
			w := c.WatchServices(t.Context(), nil)
			if _, err := w.Next(); !errors.Is(err, want) {
				t.Errorf("%v: %v", code, err)
			}
			w.Close()
		}
		g.Fail("WatchServices", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := c.WatchServices(ctx, nil)
		next(t, w, time.Second)
		if _, err := w.Next(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context's deadline: %v", err)
		}
		own := sandboxtest.Start(t, g)
		w = own.WatchServices(t.Context(), nil)
		next(t, w, time.Second)
		own.Close()
		if u, err := w.Next(); !errors.Is(err, sandbox.ErrCanceled) {
			t.Errorf("a closed client: %v, %v", u, err)
		}
	})
}

// A gateway that is not there is an update, and no more than one.
func TestWatchWithoutGateway(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := sandboxtest.New(sandboxtest.Options{})
		c := sandboxtest.Start(t, g)
		g.Fail("WatchServices", status.Error(codes.Unavailable, "nobody is there"))
		w := c.WatchServices(t.Context(), nil)
		defer w.Close()
		u := next(t, w, time.Second)
		wantUpdate(t, "nobody", u, false, []string{}, []string{})
		if !errors.Is(u.Err, sandbox.ErrUnavailable) {
			t.Errorf("error %v", u.Err)
		}
		quiet := make(chan sandbox.ServiceUpdate, 1)
		go func() {
			u, _ := w.Next()
			quiet <- u
		}()
		testkit.Advance(10 * time.Minute)
		select {
		case u := <-quiet:
			t.Errorf("still nobody: %v", u)
		default:
		}
		g.Fail("WatchServices", nil)
		testkit.Advance(20 * time.Second)
		select {
		case u := <-quiet:
			wantUpdate(t, "an empty gateway", u, true, []string{}, []string{})
		default:
			t.Error("no update")
		}
	})
}
