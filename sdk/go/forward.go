// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// connectionChunk is how much is sent in one message.
const connectionChunk = 32 << 10

// Connection is a connection to a service, through the gateway: the bytes of a
// TCP connection to its port, as somebody inside the sandbox would have it. One
// goroutine may read while another writes; Close may be called by any.
type Connection struct {
	stream grpc.BidiStreamingClient[sandboxv1.ForwardRequest, sandboxv1.ForwardResponse]
	cancel context.CancelFunc
	rest   []byte      // of the reader: received and not read
	ended  atomic.Bool // the service has ended its direction, and nobody receives any more
	wrote  atomic.Bool // ours has ended
	once   sync.Once   // of Close
}

// ConnectService opens a connection to a service and returns when the service
// has accepted it. ctx is for the whole life of the connection: when it ends,
// the connection is reset.
//
// Errors: ErrNotFound; ErrFailedPrecondition if the sandbox is not ready;
// ErrResourceExhausted if the sandbox has too many connections; ErrUnavailable
// if nothing listens on the port or the agent is not connected.
func (c *Client) ConnectService(ctx context.Context, target *sandboxv1.ForwardTarget) (*Connection, error) {
	const op = "ConnectService"
	ctx, cancel := context.WithCancel(ctx)
	stream, err := sandboxv1.NewServiceForwardClient(c.conn).Forward(ctx)
	if err == nil {
		err = begin(stream, target)
	}
	if err != nil {
		cancel()
		return nil, wrap(op, err)
	}
	return &Connection{stream: stream, cancel: cancel}, nil
}

// begin asks for the service and returns once it has accepted.
func begin(stream grpc.BidiStreamingClient[sandboxv1.ForwardRequest, sandboxv1.ForwardResponse], target *sandboxv1.ForwardTarget) error {
	err := stream.Send(&sandboxv1.ForwardRequest{Message: &sandboxv1.ForwardRequest_Target{Target: target}})
	if err != nil && err != io.EOF { // a refusal shows itself in Recv
		return err
	}
	m, err := stream.Recv()
	if err == nil && m.GetAccepted() == nil {
		return errors.New("the gateway does not begin with its answer")
	}
	return err
}

// Read reads what the service has sent. io.EOF means that the service has ended
// its direction; any other error that something may be missing.
func (c *Connection) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.ended.Load() {
			return 0, io.EOF
		}
		m, err := c.stream.Recv()
		if err == io.EOF { // both directions have ended, and nobody said so
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, wrap("Read", err)
		}
		c.rest = m.GetData()
		c.ended.Store(m.GetEnd() != nil)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write sends p and returns when all of it is on its way. io.ErrClosedPipe means
// that the connection has ended; Read says why.
func (c *Connection) Write(p []byte) (int, error) {
	for sent := 0; ; {
		part := p[sent:min(len(p), sent+connectionChunk)]
		if len(part) == 0 {
			return sent, nil
		}
		switch err := c.stream.Send(&sandboxv1.ForwardRequest{Message: &sandboxv1.ForwardRequest_Data{Data: part}}); {
		case err == io.EOF:
			return sent, io.ErrClosedPipe
		case err != nil:
			return sent, wrap("Write", err)
		}
		sent += len(part)
	}
}

// CloseWrite ends the direction to the service, which goes on with the other.
func (c *Connection) CloseWrite() error {
	c.wrote.Store(true)
	return wrap("CloseWrite", c.stream.CloseSend())
}

// Close ends the connection and returns at once. If Read has returned io.EOF and
// CloseWrite was called, what was written still arrives, unless ctx ends;
// otherwise the connection is reset.
func (c *Connection) Close() error {
	if !c.ended.Load() || !c.wrote.Load() {
		c.cancel()
		return nil
	}
	c.once.Do(func() {
		go func() {
			defer c.cancel()
			_, _ = c.stream.Recv() // the gateway has passed everything on, or cannot
		}()
	})
	return nil
}
