// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceGet() *cobra.Command {
	cmd := command("get SANDBOX [NAME] [flags]", "Show one service and its health",
		`  sandboxctl service get web
  sandboxctl service get web docs
  sandboxctl service get web -o json`, "SANDBOX", "[NAME]")
	cmd.ValidArgsFunction = a.completeService
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := c.GetService(ctx, &openshellv1.GetServiceRequest{
			Sandbox: args[0], Name: optional(args, 1), WorkspaceScope: a.scope(),
		})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { drawService(p, resp, a.now()) })
	})
	return cmd
}
