// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

const (
	reused    = `request_id: was used within 24 hours for another request; every request needs an id of its own`
	completed = openshellv1.DeletionOutcome_DELETION_OUTCOME_COMPLETED
	absent    = openshellv1.DeletionOutcome_DELETION_OUTCOME_ALREADY_ABSENT
)

// replayCase is a mutation of a sandbox "web" with a service "api" on port 80.
type replayCase struct {
	req     proto.Message
	other   proto.Message // another payload for the same RPC
	between proto.Message // done after the first time, so that a second one would show
	// anew is what the request does a day later.
	anew func(w *world, resp proto.Message, err error)
}

func phaseIs(phase openshellv1.SandboxPhase, lastCall string) func(*world, proto.Message, error) {
	return func(w *world, resp proto.Message, err error) {
		w.t.Helper()
		calls := w.driver.calls()
		if err != nil || resp.(*openshellv1.SandboxResponse).GetSandbox().GetStatus().GetPhase() != phase || !strings.HasPrefix(calls[len(calls)-1], lastCall) {
			w.t.Errorf("a day later: %v, %v, the driver was asked %q", resp, err, calls)
		}
	}
}

func fails(code codes.Code, message string) func(*world, proto.Message, error) {
	return func(w *world, _ proto.Message, err error) {
		w.t.Helper()
		wantError(w.t, "a day later", err, code, message)
	}
}

func replayCases() map[string]replayCase {
	return map[string]replayCase{
		"create": {
			&createReq{Name: "new", ServiceExposures: []*exposure{{TargetPort: 80}}}, &createReq{Name: "other"}, nil,
			fails(codes.AlreadyExists, `sandbox "new" in workspace "default" exists already`),
		},
		"stop": {
			&stopReq{Name: "web"}, &stopReq{Name: "none"}, &startReq{Name: "web"},
			phaseIs(openshellv1.SandboxPhase_SANDBOX_PHASE_STOPPED, "stop"),
		},
		"start": {
			&startReq{Name: "web"}, &startReq{Name: "none"}, &stopReq{Name: "web"},
			phaseIs(openshellv1.SandboxPhase_SANDBOX_PHASE_STARTING, "start"),
		},
		"delete": {
			&deleteReq{Name: "web"}, &deleteReq{Name: "web", AllowMissing: true}, nil,
			fails(codes.NotFound, `sandbox "web" in workspace "default" does not exist`),
		},
		"expose a new one": {
			&exposeReq{Sandbox: "web", TargetPort: 90}, &exposeReq{Sandbox: "web", TargetPort: 91}, &exposeReq{Sandbox: "web", TargetPort: 92},
			func(w *world, _ proto.Message, err error) {
				if port := w.stored("web", "").Port; err != nil || port != 90 {
					w.t.Errorf("a day later: port %d, %v", port, err)
				}
			},
		},
		"expose again": {
			&exposeReq{Sandbox: "web", Name: "api", TargetPort: 90}, &exposeReq{Sandbox: "none", Name: "api", TargetPort: 90},
			&exposeReq{Sandbox: "web", Name: "api", TargetPort: 92},
			func(w *world, _ proto.Message, err error) {
				if port := w.stored("web", "api").Port; err != nil || port != 90 {
					w.t.Errorf("a day later: port %d, %v", port, err)
				}
			},
		},
		"delete a service": {
			&deleteServiceReq{Sandbox: "web", Name: "api"}, &deleteServiceReq{Sandbox: "web", Name: "none", AllowMissing: true},
			&exposeReq{Sandbox: "web", Name: "api", TargetPort: 92},
			func(w *world, resp proto.Message, err error) {
				_, gone := w.call(&getServiceReq{Sandbox: "web", Name: "api"})
				if err != nil || resp.(*openshellv1.DeleteServiceResponse).GetOutcome() != completed || gone == nil {
					w.t.Errorf("a day later: %v, %v, %v", resp, err, gone)
				}
			},
		},
	}
}

func withoutHealth(m proto.Message) proto.Message {
	m = proto.Clone(m)
	if r, ok := m.(*openshellv1.ServiceEndpointResponse); ok {
		r.Health = nil
	}
	return m
}

func TestReplay(t *testing.T) {
	for name, c := range replayCases() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sb := w.create("web", &exposure{Service: "api", TargetPort: 80})
			w.agent(sb.GetMetadata().GetId(), "one").report("api", passed)
			id := uuid.NewString()
			first := must[proto.Message](w, withField(c.req, "request_id", id))
			if c.between != nil {
				must[proto.Message](w, c.between)
			}
			before := w.everything()
			replay := func(id string) {
				t.Helper()
				again := must[proto.Message](w, withField(c.req, "request_id", id))
				if !proto.Equal(again, withoutHealth(first)) {
					t.Errorf("replayed %v\nwant %v", again, withoutHealth(first))
				}
				w.unchanged("a replay", before)
			}
			replay(id)
			replay(strings.ToUpper(id))
			_, err := w.call(withField(c.other, "request_id", id))
			wantError(t, "another payload", err, codes.InvalidArgument, reused)
			for _, m := range []proto.Message{&createReq{Name: "fresh"}, &exposeReq{Sandbox: "web", TargetPort: 7}} {
				if m.ProtoReflect().Descriptor() != c.req.ProtoReflect().Descriptor() {
					_, err := w.call(withField(m, "request_id", id))
					wantError(t, "another RPC", err, codes.InvalidArgument, reused)
				}
			}
			w.unchanged("other requests with this id", before)
			w.advance(24*time.Hour - time.Second)
			replay(id)
			w.advance(time.Second)
			resp, err := w.call(withField(c.req, "request_id", id))
			c.anew(w, resp, err)
		})
	}
}

// A stored success outlives what it was about.
func TestReplayAfterTheSandboxIsGone(t *testing.T) {
	w := newWorld(t)
	w.create("web", &exposure{Service: "api", TargetPort: 80})
	requests := []proto.Message{
		&stopReq{Name: "web"}, &startReq{Name: "web"}, &exposeReq{Sandbox: "web", TargetPort: 90},
		&deleteServiceReq{Sandbox: "web", Name: "api"}, &deleteReq{Name: "web"},
	}
	answers := make([]proto.Message, len(requests))
	for i, req := range requests {
		requests[i] = withField(req, "request_id", uuid.NewString())
		answers[i] = must[proto.Message](w, requests[i])
	}
	before := w.everything()
	for i, req := range requests {
		if again := must[proto.Message](w, req); !proto.Equal(again, withoutHealth(answers[i])) {
			t.Errorf("%T: %v, want %v", req, again, answers[i])
		}
	}
	w.unchanged("replays", before)
}

// What fails is not remembered: the same request may succeed later.
func TestFailuresAreNotReplayed(t *testing.T) {
	w := newWorld(t)
	req := &exposeReq{Sandbox: "web", TargetPort: 80, RequestId: uuid.NewString()}
	_, err := w.call(req)
	wantError(t, "without sandbox", err, codes.NotFound, `sandbox "web" in workspace "default" does not exist`)
	w.create("web")
	w.expose(req)
}

// The state of a replayed create is the stored one, not that of today.
func TestReplayedAnswersAreOld(t *testing.T) {
	w := newWorld(t)
	req := &createReq{Name: "web", RequestId: uuid.NewString()}
	first := must[*openshellv1.SandboxResponse](w, req)
	id := first.GetSandbox().GetMetadata().GetId()
	w.agent(id, "one")
	if again := must[*openshellv1.SandboxResponse](w, req); !proto.Equal(first, again) {
		t.Errorf("replayed %v, want %v", again, first)
	}
	if starts := slices.DeleteFunc(w.driver.calls(), func(c string) bool { return !strings.HasPrefix(c, "start") }); len(starts) != 1 {
		t.Errorf("booted %d times", len(starts))
	}
}

func TestAllowMissing(t *testing.T) {
	w := newWorld(t)
	dropSandbox := &deleteReq{Name: "web", AllowMissing: true, RequestId: uuid.NewString()}
	dropService := &deleteServiceReq{Sandbox: "web", Name: "api", AllowMissing: true, RequestId: uuid.NewString()}
	outcomes := func(when string, wantSandbox, wantService openshellv1.DeletionOutcome, sandbox *deleteReq, service *deleteServiceReq) {
		t.Helper()
		svc := must[*openshellv1.DeleteServiceResponse](w, service)
		sb := must[*openshellv1.DeleteSandboxResponse](w, sandbox)
		if sb.GetOutcome() != wantSandbox || svc.GetOutcome() != wantService || (sb.GetSandboxId() == "") != (wantSandbox == absent) {
			t.Errorf("%s: %v, %v", when, sb, svc)
		}
	}
	outcomes("nothing is there", absent, absent, dropSandbox, dropService)
	w.create("web", &exposure{Service: "api", TargetPort: 80})
	before := w.everything()
	outcomes("replayed", absent, absent, dropSandbox, dropService)
	w.unchanged("the replay", before)
	outcomes("they are there", completed, completed,
		&deleteReq{Name: "web", AllowMissing: true}, &deleteServiceReq{Sandbox: "web", Name: "api", AllowMissing: true})
	outcomes("they are gone", absent, absent,
		&deleteReq{Name: "web", AllowMissing: true}, &deleteServiceReq{Sandbox: "web", Name: "api", AllowMissing: true})
}

// Two who delete one sandbox: the second finds it gone, and minds or does not.
func TestConcurrentDeletes(t *testing.T) {
	for _, allow := range []bool{false, true} {
		w := newWorld(t)
		w.create("web")
		entered, release := make(chan struct{}, 2), make(chan struct{})
		w.driver.before = func(string) error {
			entered <- struct{}{}
			<-release
			return nil
		}
		type answer struct {
			outcome openshellv1.DeletionOutcome
			err     error
		}
		drop := func() <-chan answer {
			done := make(chan answer, 1)
			go func() {
				resp, err := w.DeleteSandbox(admin(t.Context()), &deleteReq{Name: "web", AllowMissing: allow})
				done <- answer{resp.GetOutcome(), err}
			}()
			return done
		}
		first := drop()
		<-entered
		reads := w.count("sandbox")
		second := drop()
		eventually(t, "the second has found it", func() bool { return w.count("sandbox") > reads })
		close(release)
		if a := <-first; a.err != nil || a.outcome != completed {
			t.Errorf("the first: %v", a)
		}
		b := <-second
		if allow && (b.err != nil || b.outcome != absent) {
			t.Errorf("the second, which does not mind: %v", b)
		}
		if !allow {
			wantError(t, "the second", b.err, codes.NotFound, `sandbox "web" in workspace "default" does not exist`)
		}
		if n := len(w.driver.calls()); n != 2 { // a start and one deletion
			t.Errorf("the driver was asked %d times", n)
		}
	}
}

// A health that says something would be in the first answer of an expose.
func TestFirstAnswerOfExposeCarriesHealth(t *testing.T) {
	w := newWorld(t)
	id := w.create("web").GetMetadata().GetId()
	w.expose(&exposeReq{Sandbox: "web", TargetPort: 80})
	w.agent(id, "one").report("", passed)
	req := &exposeReq{Sandbox: "web", TargetPort: 80, RequestId: uuid.NewString()}
	if h := w.expose(req).GetHealth(); h.GetState() != healthy || h.GetReason() != probe.OK.String() {
		t.Errorf("first: %v", h)
	}
	if h := w.expose(req).GetHealth(); h != nil {
		t.Errorf("replayed: %v", h)
	}
}
