// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) sandboxGet() *cobra.Command {
	cmd := command("get NAME [flags]", "Show one sandbox",
		`  sandboxctl sandbox get web
  sandboxctl sandbox get web -o json`, "NAME")
	cmd.ValidArgsFunction = a.completeSandbox
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := c.GetSandbox(ctx, &openshellv1.GetSandboxRequest{Name: args[0], WorkspaceScope: a.scope()})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { drawSandbox(p, resp.GetSandbox(), a.now()) })
	})
	return cmd
}
