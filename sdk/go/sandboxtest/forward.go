// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"io"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// Forward implements sandbox.v1: every service sends back what it is sent, and
// ends after its caller.
func (g *Gateway) Forward(stream sandboxv1.ServiceForward_ForwardServer) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	t := m.GetTarget()
	workspace, err := one(t.GetWorkspaceScope())
	if err != nil {
		return err
	}
	if k := (key{workspace, t.GetSandbox(), t.GetName()}); !g.exists(k) {
		return noService(k)
	}
	if err := stream.Send(&sandboxv1.ForwardResponse{Message: &sandboxv1.ForwardResponse_Accepted{Accepted: &sandboxv1.ForwardAccepted{}}}); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return stream.Send(&sandboxv1.ForwardResponse{Message: &sandboxv1.ForwardResponse_End{End: &sandboxv1.ForwardEnd{}}})
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&sandboxv1.ForwardResponse{Message: &sandboxv1.ForwardResponse_Data{Data: m.GetData()}}); err != nil {
			return err
		}
	}
}

func (g *Gateway) exists(k key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.services[k] != nil
}
