// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) sandboxStart() *cobra.Command {
	cmd := command("start NAME [flags]", "Start a stopped sandbox again, with a new token",
		`  sandboxctl sandbox start web`, "NAME")
	cmd.ValidArgsFunction = a.completeSandbox
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := c.StartSandbox(ctx, &openshellv1.StartSandboxRequest{
			Name: args[0], WorkspaceScope: a.scope(), RequestId: sandbox.NewRequestID(),
		})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) {
			drawChange(p, resp.GetSandbox(), "was told to start")
			drawRuntime(p, resp.GetSandbox())
		})
	})
	return cmd
}
