// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/report"
	"github.com/sandbox-agent/sandbox-agent/report/wire"
)

// maxMessage is the largest control message, in bytes.
const maxMessage = 1 << 20

// dialControl opens the control stream and lays gRPC over it. The connection
// is good for one session: it is never dialled again.
func dialControl(ctx context.Context, session *mux.Session) (*grpc.ClientConn, error) {
	stream, err := session.Open(ctx, mux.KindControl, nil)
	if err != nil {
		return nil, err
	}
	var once sync.Once
	dial := func(context.Context, string) (conn net.Conn, err error) {
		err = errors.New("the control stream has ended")
		once.Do(func() { conn, err = stream, nil })
		return conn, err
	}
	conn, err := grpc.NewClient("passthrough:///session",
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()), // the session is authenticated and encrypted
		grpc.WithInitialWindowSize(65535), grpc.WithInitialConnWindowSize(65535),
		grpc.WithReadBufferSize(0), grpc.WithWriteBufferSize(2<<10),
		grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		stream.Close()
	}
	return conn, err
}

// control is the agent's end of one session's control stream.
type control struct {
	link   *link
	turn   context.Context // outlives the session
	stream supervisorv1.Supervisor_ConnectClient
	acks   chan uint64
	moving sync.WaitGroup
	moved  chan *mux.Session // size 1
	end    context.CancelCauseFunc
}

var _ report.Transport = (*control)(nil)

// Send implements report.Transport.
func (c *control) Send(r report.Report) error {
	m := &supervisorv1.AgentMessage{Message: &supervisorv1.AgentMessage_Report{Report: wire.Encode(r)}}
	c.link.counts.reports.Add(1)
	c.link.counts.reportBytes.Add(uint64(proto.Size(m)))
	return c.stream.Send(m)
}

// Acks implements report.Transport.
func (c *control) Acks() <-chan uint64 { return c.acks }

// receive acts on the gateway's messages until the session ends.
func (c *control) receive(ctx context.Context) error {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return err
		}
		switch m := m.GetMessage().(type) {
		case *supervisorv1.GatewayMessage_Ack:
			select {
			case c.acks <- m.Ack.GetSequence():
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case *supervisorv1.GatewayMessage_Desired:
			if err := c.desired(m.Desired); err != nil {
				return err
			}
		case *supervisorv1.GatewayMessage_Token:
			c.link.tokens.renew(secret.New(m.Token.GetToken()))
		case *supervisorv1.GatewayMessage_Move:
			c.move(ctx, time.Duration(m.Move.GetAfterMs())*time.Millisecond)
		}
	}
}

// desired takes a desired state over.
func (c *control) desired(m *supervisorv1.DesiredState) error {
	services, bad, err := wire.DecodeDesired(m)
	if err != nil {
		return err
	}
	for _, err := range bad {
		c.link.logger.Warn("a service of the desired state is left out", "error", err)
	}
	c.link.relays.desire(services)
	c.link.scheduler.SetServices(services)
	return nil
}

// move opens another session beside this one, and ends this one once the
// other is accepted.
func (c *control) move(ctx context.Context, after time.Duration) {
	c.moving.Go(func() {
		sleep(ctx, after)
		var redial mux.Redial
		for ctx.Err() == nil {
			session, err := c.link.dial(ctx, c.turn)
			if err != nil {
				sleep(ctx, redial.Failed(err, rand.Float64()))
				continue
			}
			select {
			case c.moved <- session:
				c.end(errMoved)
			default: // asked to move twice
				session.Close()
			}
			return
		}
	})
}
