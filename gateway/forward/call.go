// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/route"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// readSize is how much of the service's data is sent in one message at most.
const readSize = 32 << 10

var (
	errClosed  = errors.New("the server is closed")
	errStalled = errors.New("one end took or said nothing for too long")
	errMessage = errors.New("a message that is no data")
)

type forwardStream = sandboxv1.ServiceForward_ForwardServer

// call carries one connection.
type call struct {
	stream   forwardStream
	relay    Relay
	patience mux.Patience
	accepted atomic.Bool
	half     atomic.Bool // one direction has ended
	idle     *time.Timer // for the caller, once the service has ended
	sending  *time.Timer // for the caller to take a message
	stalled  chan struct{}
}

func newCall(stream forwardStream, relay Relay, patience mux.Patience) *call {
	c := &call{stream: stream, relay: relay, patience: patience, stalled: make(chan struct{}, 2)}
	fire := func() {
		select {
		case c.stalled <- struct{}{}:
		default:
		}
	}
	c.idle, c.sending = time.AfterFunc(time.Hour, fire), time.AfterFunc(time.Hour, fire)
	c.idle.Stop()
	c.sending.Stop()
	return c
}

// run carries both directions until they have ended, or until one has failed.
// The loop that is left over then ends with the call.
func (c *call) run(closed <-chan struct{}) error {
	defer c.idle.Stop()
	defer c.sending.Stop()
	ended := make(chan error, 2)
	go func() { ended <- c.up() }()
	go func() { ended <- c.down() }()
	for range 2 {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
		case <-c.stalled:
			return errStalled
		case <-closed:
			return errClosed
		case <-c.stream.Context().Done():
			return context.Cause(c.stream.Context())
		}
	}
	return nil
}

// up carries what the caller sends.
func (c *call) up() error {
	for {
		m, err := c.stream.Recv()
		if err == io.EOF {
			c.half.Store(true)
			_ = c.relay.SetReadDeadline(time.Now().Add(c.patience.Linger))
			return c.relay.CloseWrite()
		}
		if err != nil {
			return err
		}
		data, ok := m.GetMessage().(*sandboxv1.ForwardRequest_Data)
		if !ok {
			return errMessage
		}
		if c.half.Load() {
			c.idle.Reset(c.patience.Linger)
		}
		_ = c.relay.SetWriteDeadline(time.Now().Add(c.patience.Stall))
		if _, err := c.relay.Write(data.Data); err != nil {
			return err
		}
	}
}

// down carries what the service says.
func (c *call) down() error {
	if err := c.relay.Await(); err != nil {
		return err
	}
	c.accepted.Store(true)
	if err := c.send(&sandboxv1.ForwardResponse{Message: &sandboxv1.ForwardResponse_Accepted{Accepted: &sandboxv1.ForwardAccepted{}}}); err != nil {
		return err
	}
	buf := make([]byte, readSize)
	for {
		n, err := c.relay.Read(buf)
		if n > 0 {
			if c.half.Load() {
				_ = c.relay.SetReadDeadline(time.Now().Add(c.patience.Linger))
			}
			if err := c.send(&sandboxv1.ForwardResponse{Message: &sandboxv1.ForwardResponse_Data{Data: buf[:n]}}); err != nil {
				return err
			}
		}
		if err == io.EOF {
			c.half.Store(true)
			c.idle.Reset(c.patience.Linger)
			return c.send(&sandboxv1.ForwardResponse{Message: &sandboxv1.ForwardResponse_End{End: &sandboxv1.ForwardEnd{}}})
		}
		if err != nil {
			return err
		}
	}
}

// send sends a message, which the caller must take in a while.
func (c *call) send(m *sandboxv1.ForwardResponse) error {
	c.sending.Reset(c.patience.Stall)
	defer c.sending.Stop()
	return c.stream.Send(m)
}

// status is how the call ends.
func (c *call) status(name route.Name, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errMessage):
		return status.Error(codes.InvalidArgument, "message: only data follows the target")
	case c.stream.Context().Err() != nil:
		return status.FromContextError(c.stream.Context().Err()).Err()
	case errors.Is(err, errStalled), errors.Is(err, os.ErrDeadlineExceeded):
		return status.Error(codes.Aborted, errStalled.Error())
	case !c.accepted.Load():
		return explain(name, err)
	}
	return status.Error(codes.Aborted, "the connection was reset")
}
