// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

func withService() *sandboxtest.Gateway {
	g := sandboxtest.New(sandboxtest.Options{Token: "token"})
	g.PutService(&openshellv1.ServiceEndpoint{Sandbox: "web", TargetPort: 80}, nil)
	return g
}

// T21: the end of the question leaves the reply alone.
func TestConnectService(t *testing.T) {
	client := sandboxtest.Start(t, withService())
	c, err := client.ConnectService(t.Context(), &sandboxv1.ForwardTarget{Sandbox: "web"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	question := bytes.Repeat([]byte("0123456789"), 10_000)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(question)
		sent <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.ReadAll(c)
	if !bytes.Equal(got, question) || err != nil {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if err := <-sent; err != nil {
		t.Errorf("write: %v", err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read again: %d, %v", n, err)
	}
}

// endsFirst is a gateway of services that say nothing, and then hear what there
// is.
type endsFirst struct {
	sandboxv1.UnimplementedServiceForwardServer
	start chan struct{} // to hear
	heard chan int
}

func (e endsFirst) Forward(stream sandboxv1.ServiceForward_ForwardServer) error {
	n := 0
	defer func() { e.heard <- n }()
	_, err := stream.Recv() // the target
	for _, m := range []*sandboxv1.ForwardResponse{
		{Message: &sandboxv1.ForwardResponse_Accepted{Accepted: &sandboxv1.ForwardAccepted{}}},
		{Message: &sandboxv1.ForwardResponse_End{End: &sandboxv1.ForwardEnd{}}},
	} {
		err = errors.Join(err, stream.Send(m))
	}
	<-e.start
	for err == nil {
		var m *sandboxv1.ForwardRequest
		m, err = stream.Recv()
		n += len(m.GetData())
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// T21: what was written before both directions had ended arrives, though the
// service ended first and Close did not wait.
func TestConnectServiceThatEndsFirst(t *testing.T) {
	lis := bufconn.Listen(1 << 16)
	gateway := endsFirst{start: make(chan struct{}), heard: make(chan int, 1)}
	server := grpc.NewServer()
	sandboxv1.RegisterServiceForwardServer(server, gateway)
	go func() { _ = server.Serve(lis) }()
	defer server.Stop()
	client, err := sandbox.Dial(t.Context(), sandbox.Options{
		Address: "http://localhost:1", Token: "token",
		Dialer: func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c, err := client.ConnectService(t.Context(), &sandboxv1.ForwardTarget{Sandbox: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("read: %d, %v", n, err)
	}
	const size = 120_000 // of which a stream's window takes a half
	_, err = c.Write(make([]byte, size))
	if err := errors.Join(err, c.CloseWrite(), c.Close()); err != nil {
		t.Fatal(err)
	}
	close(gateway.start)
	if n := <-gateway.heard; n != size {
		t.Errorf("%d of %d bytes arrived", n, size)
	}
}

func TestConnectServiceFails(t *testing.T) {
	client := sandboxtest.Start(t, withService())
	if _, err := client.ConnectService(t.Context(), &sandboxv1.ForwardTarget{Sandbox: "other"}); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("another sandbox: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, err := client.ConnectService(ctx, &sandboxv1.ForwardTarget{Sandbox: "web"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, sandbox.ErrCanceled) {
		t.Errorf("read: %v", err)
	}
	if _, err := c.Write(make([]byte, 1)); err == nil {
		t.Error("a connection that has ended takes bytes")
	}
}
