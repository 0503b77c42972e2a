// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) sandboxStop() *cobra.Command {
	cmd := command("stop NAME [flags]", "End the processes of a sandbox; its services stay stored",
		`  sandboxctl sandbox stop web`, "NAME")
	cmd.ValidArgsFunction = a.completeSandbox
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := c.StopSandbox(ctx, &openshellv1.StopSandboxRequest{
			Name: args[0], WorkspaceScope: a.scope(), RequestId: sandbox.NewRequestID(),
		})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { drawChange(p, resp.GetSandbox(), "was told to stop") })
	})
	return cmd
}
