// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/latest"
	"github.com/sandbox-agent/sandbox-agent/report"
)

type connectStream = supervisorv1.Supervisor_ConnectServer

// control implements supervisor.v1 on control streams.
type control struct {
	supervisorv1.UnimplementedSupervisorServer
	server *Server
}

// Connect carries one session.
func (c *control) Connect(stream connectStream) error {
	l, ok := liveFrom(stream.Context())
	if !ok || !l.connected.CompareAndSwap(false, true) {
		return status.Error(codes.FailedPrecondition, "one Connect per session")
	}
	part := sync.OnceFunc(func() { c.server.part(l) })
	defer part()
	services, err := c.server.cfg.Directory.Services(stream.Context(), l.sandboxID)
	if err != nil {
		return status.Error(codes.Unavailable, "the store does not answer")
	}
	intake, first := NewIntake(c.server.cfg.Cache, l.sandboxID, l.id, l.instance, services, time.Now(), c.server.cfg.Metrics.observation)
	if err := stream.Send(&supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Desired{Desired: first}}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(stream.Context())
	defer stop()
	acks := latest.New[uint64]()
	sender := &sender{server: c.server, live: l, stream: stream, intake: intake, acks: acks}
	sent := make(chan error, 1)
	go func() { sent <- sender.run(ctx) }()
	err = c.receive(stream, l, intake, acks)
	part()
	stop()
	<-sent
	if errors.Is(err, io.EOF) { // the agent has said all that it wanted to
		return nil
	}
	return err
}

// farewell is how long a session stays open after its control stream, for the
// agent to read why that has ended.
const farewell = time.Second

// part ends a session whose control stream ends.
func (s *Server) part(l *live) {
	s.release(l)
	time.AfterFunc(farewell, func() { l.mux.Close() })
}

// receive takes reports until the stream ends.
func (c *control) receive(stream connectStream, l *live, intake *Intake, acks *latest.Cell[uint64]) error {
	s := c.server
	for {
		m, err := stream.Recv()
		if err != nil {
			if status.Code(err) == codes.ResourceExhausted {
				s.cfg.Metrics.report("too_large")
			}
			return err
		}
		taken, err := intake.Report(m.GetReport(), time.Now())
		if err != nil {
			s.cfg.Metrics.report("invalid")
			return status.Error(codes.InvalidArgument, err.Error())
		}
		outcome := "accepted"
		if taken.Superseded {
			outcome = "superseded"
		}
		s.cfg.Metrics.report(outcome)
		signal(l.reported)
		if taken.Stop != nil {
			s.leaving(stream, l, *taken.Stop)
		}
		intake.Acknowledging(taken.Sequence, time.Now())
		acks.Put(taken.Sequence)
	}
}

// leaving acts on an agent's last report.
func (s *Server) leaving(stream connectStream, l *live, stop report.Stop) {
	if !stop.MainExited {
		return
	}
	if err := s.cfg.Directory.Exited(stream.Context(), l.sandboxID, l.generation, stop.ExitCode); err != nil {
		s.cfg.Logger.Warn("marking a sandbox exited failed", "sandbox_id", l.sandboxID, "error", err)
	}
}

// sender owns the sending half of a session after its first message.
type sender struct {
	server *Server
	live   *live
	stream connectStream
	intake *Intake
	acks   *latest.Cell[uint64]
}

// run sends until ctx or the session ends.
func (s *sender) run(ctx context.Context) error {
	renew := time.NewTimer(s.renewal(time.Now()))
	defer renew.Stop()
	for {
		var m *supervisorv1.GatewayMessage
		select {
		case <-ctx.Done():
			return nil
		case <-s.acks.Ready():
			seq, ok := s.acks.Take()
			if !ok {
				continue
			}
			m = &supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Ack{Ack: &supervisorv1.Ack{Sequence: seq}}}
		case <-s.live.refresh:
			m = s.refreshed()
		case <-s.live.move.Ready():
			after, ok := s.live.move.Take()
			if !ok {
				continue
			}
			m = &supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Move{
				Move: &supervisorv1.Move{AfterMs: uint32(after.Milliseconds())},
			}}
		case <-renew.C:
			m = s.token()
			renew.Reset(max(s.renewal(time.Now()), minRenewal))
		}
		if m == nil {
			continue
		}
		if err := s.stream.Send(m); err != nil {
			return err
		}
	}
}

// refreshed returns the desired state if it has changed.
func (s *sender) refreshed() *supervisorv1.GatewayMessage {
	services, err := s.server.cfg.Directory.Services(s.stream.Context(), s.live.sandboxID)
	if err != nil {
		if s.stream.Context().Err() == nil {
			s.server.cfg.Logger.Warn("reading a desired state failed", "sandbox_id", s.live.sandboxID, "error", err)
		}
		s.live.mux.Close() // the session starts over, and with it the desired state
		return nil
	}
	m, changed := s.intake.Desired(services)
	if !changed {
		return nil
	}
	return &supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Desired{Desired: m}}
}

// minRenewal keeps a failing renewal from spinning.
const minRenewal = time.Minute

// renewal tells when the session's token should be replaced: at half of its
// life.
func (s *sender) renewal(now time.Time) time.Duration {
	return max(0, s.live.expires.Sub(now)-s.server.cfg.Tokens.TokenLifetime()/2)
}

func (s *sender) token() *supervisorv1.GatewayMessage {
	token, expires, err := s.server.cfg.Tokens.Issue(s.live.sandboxID, s.live.generation)
	if err != nil {
		s.server.cfg.Logger.Warn("renewing a sandbox token failed", "sandbox_id", s.live.sandboxID, "error", err)
		return nil
	}
	s.live.expires = expires
	return &supervisorv1.GatewayMessage{Message: &supervisorv1.GatewayMessage_Token{Token: &supervisorv1.Token{Token: token.Reveal()}}}
}
