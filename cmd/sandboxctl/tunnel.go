// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// tunnel carries one connection until both directions have ended, or one has
// failed, or ctx ends. After an error the connection is to be reset.
func tunnel(ctx context.Context, c *sandbox.Client, conn net.Conn, target *sandboxv1.ForwardTarget) error {
	local := conn.(*net.TCPConn) // of a TCP listener
	remote, err := c.ConnectService(ctx, target)
	if err != nil {
		return err
	}
	defer remote.Close() //nolint:errcheck // it cannot fail
	defer context.AfterFunc(ctx, func() { reset(local) })()
	ended := make(chan error, 2)
	go func() { ended <- carry(remote, local) }()
	go func() { ended <- carry(local, remote) }()
	for range 2 {
		e := <-ended
		if e == nil || err != nil {
			continue
		}
		err = e
		// The other direction is of no use without this one.
		reset(local)
		_ = remote.Close()
	}
	_ = local.Close()
	if left, ok := errors.AsType[*net.OpError](err); ok && left != nil {
		return nil // whoever connected has left
	}
	return err
}

// half is where a direction ends.
type half interface {
	io.Writer
	CloseWrite() error
}

// carry copies one direction and passes its end on.
func carry(dst half, src io.Reader) error {
	if _, err := io.Copy(struct{ io.Writer }{dst}, struct{ io.Reader }{src}); err != nil {
		return err
	}
	return dst.CloseWrite()
}

// reset ends a connection such that its peer does not take it for complete.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
