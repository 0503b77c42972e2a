// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

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
