// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// over runs a test with sessions over each real transport, and over a pipe.
func over(t *testing.T, body func(t *testing.T, w *world, agent func(instance string) *fakeAgent)) {
	t.Run("pipe", func(t *testing.T) {
		w := newWorld(t)
		body(t, w, func(instance string) *fakeAgent {
			s, refused := w.attach(t, w.token(t, "sandbox-1", 3), instance)
			if refused != nil {
				t.Fatal(refused)
			}
			return connect(t, s)
		})
	})
	for _, transport := range []string{"unix", "https"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t)
			g := muxtest.Serve(t, w)
			address := g.HTTPS
			if transport == "unix" {
				address = g.Unix
			}
			body(t, w, func(instance string) *fakeAgent {
				s, err := dial(g, address, w.token(t, "sandbox-1", 3), instance, "sandbox-1")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return connect(t, s)
			})
		})
	}
}

// The way of a configuration to the agent and of its observation back.
func TestASession(t *testing.T) {
	over(t, func(t *testing.T, w *world, agent func(string) *fakeAgent) {
		w.wantAnswer(t, 11, probe.Unknown, health.SupervisorDisconnected)
		a := agent("instance-1")
		d := a.desired(t)
		if len(d.GetServices()) != 1 || d.GetVersion() != 1 {
			t.Fatalf("the first desired state is %v", d)
		}
		if s := d.GetServices()[0]; s.GetName() != "web" || s.GetRevision() != 11 || s.GetPort() != 8080 || s.GetPath() != "" {
			t.Errorf("the first desired state is %v", d)
		}
		w.wantAnswer(t, 11, probe.Unknown, health.NotObserved)
		a.report(t, &supervisorv1.Report{Generation: 1, Services: []*supervisorv1.Observation{{Revision: 11}}})
		w.wantAnswer(t, 11, probe.Unknown, health.NotObserved)
		a.report(t, good(2, 11))
		w.wantAnswer(t, 11, probe.Healthy, health.NoReason)

		changed := service("web", 12, 9090)
		changed.Target.Path = "/readyz"
		w.dir.change(func(d *directory) { d.services["sandbox-1"] = []Service{changed, service("api", 13, 1)} })
		w.wantAnswer(t, 12, probe.Unknown, health.ConfigurationChanged)
		w.Refresh("sandbox-1")
		d = a.desired(t)
		if n := len(d.GetServices()); n != 2 || d.GetVersion() != 2 || d.GetServices()[1].GetPath() != "/readyz" {
			t.Fatalf("the second desired state is %v", d)
		}
		a.report(t, good(3, 11)) // the agent has not seen it yet
		w.wantAnswer(t, 12, probe.Unknown, health.ConfigurationChanged)
		a.report(t, &supervisorv1.Report{Generation: 4, Services: []*supervisorv1.Observation{healthy(12), {Revision: 13}}})
		w.wantAnswer(t, 12, probe.Healthy, health.NoReason)

		w.Refresh("sandbox-1") // nothing has changed
		w.Refresh("sandbox-2") // nobody holds it
		w.dir.change(func(d *directory) { d.services["sandbox-1"] = nil })
		w.Refresh("sandbox-1")
		if d = a.desired(t); len(d.GetServices()) != 0 || d.GetVersion() != 3 { // T11
			t.Fatalf("the empty list is sent as %v", d)
		}
		a.report(t, &supervisorv1.Report{Generation: 5})
		w.wantAnswer(t, 12, probe.Unknown, health.NotObserved)
		if got, unknown := w.count(t, reports, "accepted"), w.count(t, observations, "unknown_service"); got != 5 || unknown != 0 {
			t.Errorf("%d reports are counted, want 5, and %d observations of nothing", got, unknown)
		}
		if err := a.session.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the session is gone", func() bool { return w.Len() == 0 })
		w.wantAnswer(t, 12, probe.Unknown, health.SupervisorDisconnected)
	})
}

// What an agent says of services that are not its own is left out one by one,
// and so is what it cannot prove.
func TestObservationsThatAreLeftOut(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.agent(t, "instance-1")
		old := healthy(11)
		old.AgeMs = 60000 // older than the session
		a.report(t, &supervisorv1.Report{Generation: 2, Services: []*supervisorv1.Observation{healthy(99), old, healthy(98)}})
		if n, m := w.count(t, observations, "unknown_service"), w.count(t, observations, "unproven"); n != 2 || m != 1 {
			t.Errorf("%d unknown and %d unproven ones are counted", n, m)
		}
		w.wantAnswer(t, 11, probe.Healthy, health.NoReason) // by the report before
		testkit.Advance(probe.StaleAfter - 100*time.Millisecond)
		a.report(t, &supervisorv1.Report{Generation: 3, Services: []*supervisorv1.Observation{healthy(99)}})
		w.wantAnswer(t, 11, probe.Healthy, health.NoReason)
		testkit.Advance(100 * time.Millisecond)
		w.wantAnswer(t, 11, probe.Unknown, health.Stale)
		if n := w.count(t, observations, "pass"); n != 1 {
			t.Errorf("%d passes are counted", n)
		}
	})
}

// A conclusive attempt that is older than the proof reaches is stale, whatever
// came after it.
func TestAnUnprovenConclusiveAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		s, _ := w.attach(t, w.token(t, "sandbox-1", 3), "instance-1")
		a := connect(t, s)
		a.desired(t)
		o := healthy(11)
		o.Outcome, o.Reason = supervisorv1.Outcome_OUTCOME_INCONCLUSIVE, supervisorv1.Reason_REASON_LATE
		o.InconclusiveMs = 3000 // before the session
		a.report(t, &supervisorv1.Report{Generation: 1, Services: []*supervisorv1.Observation{o}})
		w.wantAnswer(t, 11, probe.Unknown, health.Stale)
	})
}

func TestReportsThatBreakTheRules(t *testing.T) {
	many := make([]*supervisorv1.Observation, 257)
	for i := range many {
		many[i] = healthy(11)
	}
	large := good(9, 11)
	large.ProtoReflect().SetUnknown([]byte("\xa2\x06\x80\x80\x40" + strings.Repeat("x", 1<<20)))
	for _, tc := range []struct {
		name string
		m    *supervisorv1.AgentMessage
		code codes.Code
		want string
	}{
		{"no report", &supervisorv1.AgentMessage{}, codes.InvalidArgument, "invalid"},
		{"no sequence", &supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: &supervisorv1.Report{}}}, codes.InvalidArgument, "invalid"},
		{"257 services", &supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: &supervisorv1.Report{Sequence: 2, Services: many}}}, codes.InvalidArgument, "invalid"},
		{"more than 1 MiB", &supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: large}}, codes.ResourceExhausted, "too_large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			other, refused := w.attach(t, w.token(t, "sandbox-2", 1), "instance-2")
			if refused != nil {
				t.Fatal(refused)
			}
			bystander := connect(t, other)
			bystander.desired(t)
			a := w.agent(t, "instance-1")
			if err := a.stream.Send(tc.m); err != nil {
				t.Fatal(err)
			}
			if err := <-a.ended; status.Code(err) != tc.code {
				t.Errorf("the session ended with %v, want %v", err, tc.code)
			}
			_ = a.session.Close() // as an agent does that was told why
			if n := w.count(t, reports, tc.want); n != 1 {
				t.Errorf("counted as %s %d times", tc.want, n)
			}
			eventually(t, "the session has given its place up", func() bool { return w.Len() == 1 })
			bystander.report(t, &supervisorv1.Report{Generation: 1})
		})
	}
}

// One control stream, one Connect on it, and the gateway's health beside it.
func TestOneControlStreamPerSession(t *testing.T) {
	over(t, func(t *testing.T, w *world, agent func(string) *fakeAgent) {
		a := agent("instance-1")
		a.desired(t)
		second, err := a.session.Open(context.Background(), mux.KindControl, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		if n, err := second.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("a second control stream is served: %d %v", n, err)
		}
		again, err := supervisorv1.NewSupervisorClient(a.conn).Connect(context.Background())
		if err == nil {
			_, err = again.Recv()
		}
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("a second Connect ended with %v", err)
		}
		if _, err := a.session.Open(context.Background(), mux.KindRelay, nil); err == nil {
			t.Error("an agent can open a relay")
		}
		r, err := grpc_health_v1.NewHealthClient(a.conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("the gateway's health: %v %v", r, err)
		}
		a.report(t, good(1, 11))
		w.wantAnswer(t, 11, probe.Healthy, health.NoReason)
	})
}

// T19: a session without reports is closed after 15 s, and from then on there
// is none for whoever asks.
func TestASilentSession(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, w *world) *mux.Session{
		"after a report": func(t *testing.T, w *world) *mux.Session {
			a := w.agent(t, "instance-1")
			testkit.Advance(10 * time.Second)
			a.report(t, good(2, 11))
			return a.session
		},
		"without control stream": func(t *testing.T, w *world) *mux.Session {
			s, _ := w.attach(t, w.token(t, "sandbox-1", 3), "instance-1")
			return s
		},
		"with an opening that never ends": func(t *testing.T, w *world) *mux.Session {
			s, _ := w.attach(t, w.token(t, "sandbox-1", 3), "instance-1")
			stream, err := s.Open(context.Background(), mux.KindControl, nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, stream) }()
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				w := newWorld(t)
				s := begin(t, w)
				testkit.Advance(ReportTimeout - time.Millisecond)
				if !open(s) || w.Len() != 1 {
					t.Fatal("closed before its time")
				}
				testkit.Advance(time.Millisecond)
				if open(s) || w.Len() != 0 {
					t.Fatal("still open")
				}
				w.wantAnswer(t, 11, probe.Unknown, health.SupervisorDisconnected)
				if n := w.count(t, ends, "silent"); n != 1 {
					t.Errorf("counted %d times", n)
				}
			})
		})
	}
}

// The end of a session is one line, and a warning where it was silent.
func TestASilentSessionIsOneLine(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var log bytes.Buffer // to be read when nobody is left who writes
		w := build(t, slog.New(slog.NewTextHandler(&log, nil)), newIdentity(t, time.Now))
		w.agent(t, "instance-1")
		testkit.Advance(ReportTimeout)
		w.stop()
		var lines []string
		for line := range strings.Lines(log.String()) {
			lines = append(lines, line)
		}
		if len(lines) != 2 || !strings.Contains(lines[0], `level=INFO msg="session opened"`) ||
			!strings.Contains(lines[1], `level=WARN msg="session closed"`) || !strings.Contains(lines[1], "reason=silent") {
			t.Errorf("it logs %q", lines)
		}
	})
}

// An agent that leaves is gone for whoever asks when its last report is taken,
// and the code of its main process is stored before that is acknowledged.
func TestTheLastReport(t *testing.T) {
	for _, tc := range []struct {
		name string
		stop *supervisorv1.StopNotice
		want []exit
	}{
		{"the agent stops", &supervisorv1.StopNotice{Cause: supervisorv1.StopNotice_CAUSE_AGENT_STOPPING}, nil},
		{"the main process has exited", &supervisorv1.StopNotice{Cause: supervisorv1.StopNotice_CAUSE_MAIN_PROCESS_EXITED, ExitCode: 137}, []exit{{"sandbox-1", 3, 137}}},
		{"a cause of a later version", &supervisorv1.StopNotice{Cause: 9, ExitCode: 1}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.agent(t, "instance-1")
				last := good(2, 11)
				last.Stop = tc.stop
				a.report(t, last)
				w.wantAnswer(t, 11, probe.Unknown, health.SupervisorDisconnected)
				if len(w.dir.exited) != len(tc.want) || len(tc.want) > 0 && w.dir.exited[0] != tc.want[0] {
					t.Errorf("stored %v, want %v", w.dir.exited, tc.want)
				}
				lost := w.cache.Slot("sandbox-1").Lost
				testkit.Advance(time.Second)
				_ = a.session.Close()
				testkit.Wait()
				if got := w.cache.Slot("sandbox-1").Lost; !got.Equal(lost) {
					t.Errorf("lost at %v, want at the last report, %v", got, lost)
				}
			})
		})
	}
}
