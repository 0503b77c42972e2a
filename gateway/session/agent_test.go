// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// token issues a token for a generation of a sandbox.
func (w *world) token(t testing.TB, sandboxID string, generation uint64) secret.String {
	t.Helper()
	token, _, err := w.identity.Issue(sandboxID, generation)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// hello is the request of a handshake.
func hello(token secret.String, instance string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, mux.Path, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", mux.Protocol)
	r.Header.Set("Authorization", "Bearer "+token.Reveal())
	r.Header.Set(mux.HeaderInstance, instance)
	r.Header.Set(mux.HeaderVersion, "1.0")
	return r
}

// attach opens a session over a pipe, past the HTTP exchange. It works in a
// bubble. The session is nil if the handshake was refused.
func (w *world) attach(t testing.TB, token secret.String, instance string) (*mux.Session, *mux.HandshakeError) {
	t.Helper()
	a, g := net.Pipe()
	refused := w.open(hello(token, instance), func(cfg mux.Config) (*mux.Session, error) { return mux.NewGatewaySession(g, cfg) })
	if refused != nil {
		return nil, refused
	}
	s, err := mux.NewAgentSession(a, mux.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, nil
}

// fakeAgent is an agent that does what the test says.
type fakeAgent struct {
	session  *mux.Session
	conn     *grpc.ClientConn
	stream   supervisorv1.Supervisor_ConnectClient
	in       chan *supervisorv1.GatewayMessage
	ended    chan error // why receiving ended
	sequence uint64
}

// connect opens the control stream of a session.
func connect(t testing.TB, s *mux.Session) *fakeAgent {
	t.Helper()
	p := &fakeAgent{session: s, in: make(chan *supervisorv1.GatewayMessage, 1000), ended: make(chan error, 1)}
	p.conn = overControl(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var err error
	if p.stream, err = supervisorv1.NewSupervisorClient(p.conn).Connect(ctx); err != nil {
		t.Fatalf("connect: %v", err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	t.Cleanup(cancel)
	go func() {
		defer close(done)
		for {
			m, err := p.stream.Recv()
			if err != nil {
				p.ended <- err
				return
			}
			p.in <- m
		}
	}()
	return p
}

// overControl lays gRPC over a control stream.
func overControl(t testing.TB, s *mux.Session) *grpc.ClientConn {
	t.Helper()
	stream, err := s.Open(context.Background(), mux.KindControl, nil)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	conn, err := grpc.NewClient("passthrough:///session", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return stream, nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// next returns the gateway's next message.
func (p *fakeAgent) next(t testing.TB) *supervisorv1.GatewayMessage {
	t.Helper()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case m := <-p.in:
		return m
	case err := <-p.ended:
		p.ended <- err
		t.Fatalf("the session has ended: %v", err)
	case <-timeout.C:
		t.Fatal("the gateway says nothing")
	}
	return nil
}

// desired returns the next message, which must be a desired state.
func (p *fakeAgent) desired(t testing.TB) *supervisorv1.DesiredState {
	t.Helper()
	m := p.next(t)
	if m.GetDesired() == nil {
		t.Fatalf("got %v, want a desired state", m)
	}
	return m.GetDesired()
}

// send sends a report under the next sequence number.
func (p *fakeAgent) send(t testing.TB, r *supervisorv1.Report) {
	t.Helper()
	p.sequence++
	r.Sequence = p.sequence
	if err := p.stream.Send(&supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: r}}); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// report sends a report and waits for its acknowledgement.
func (p *fakeAgent) report(t testing.TB, r *supervisorv1.Report) {
	t.Helper()
	p.send(t, r)
	if m := p.next(t); m.GetAck().GetSequence() != p.sequence {
		t.Fatalf("got %v, want the acknowledgement of %d", m, p.sequence)
	}
}

// healthy is an observation that was made just now, after the session's
// opening.
func healthy(revision uint64) *supervisorv1.Observation {
	return &supervisorv1.Observation{
		Revision: revision, State: supervisorv1.State_STATE_HEALTHY, Outcome: supervisorv1.Outcome_OUTCOME_PASS,
		Reason: supervisorv1.Reason_REASON_OK, Code: 200,
	}
}

// good is a report of one healthy service.
func good(generation, revision uint64) *supervisorv1.Report {
	return &supervisorv1.Report{Generation: generation, Services: []*supervisorv1.Observation{healthy(revision)}}
}

// reportOn reports every 5 s until the test's end.
func (p *fakeAgent) reportOn(t testing.TB, generation, revision uint64) {
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			p.sequence++
			r := good(generation, revision)
			r.Sequence = p.sequence
			if p.stream.Send(&supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: r}}) != nil {
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
}

// first returns the next message that is no acknowledgement, without waiting;
// nil if there is none.
func (p *fakeAgent) first() *supervisorv1.GatewayMessage {
	for {
		select {
		case m := <-p.in:
			if m.GetAck() == nil {
				return m
			}
		default:
			return nil
		}
	}
}

// agent is an agent of sandbox-1 that has reported its service healthy.
func (w *world) agent(t testing.TB, instance string) *fakeAgent {
	t.Helper()
	s, refused := w.attach(t, w.token(t, "sandbox-1", 3), instance)
	if refused != nil {
		t.Fatalf("refused: %v", refused)
	}
	p := connect(t, s)
	p.desired(t)
	p.report(t, good(1, 11))
	return p
}

// open reports whether a session has not ended.
func open(s *mux.Session) bool {
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}
