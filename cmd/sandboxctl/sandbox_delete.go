// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) sandboxDelete() *cobra.Command {
	var missing bool
	cmd := command("delete NAME [flags]", "Delete a sandbox and its services",
		`  sandboxctl sandbox delete web
  sandboxctl sandbox delete old --allow-missing`, "NAME")
	cmd.Flags().BoolVar(&missing, "allow-missing", false, "succeed if there is no such sandbox")
	cmd.ValidArgsFunction = a.completeSandbox
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := c.DeleteSandbox(ctx, &openshellv1.DeleteSandboxRequest{
			Name: args[0], WorkspaceScope: a.scope(), AllowMissing: missing, RequestId: sandbox.NewRequestID(),
		})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { p.line("Sandbox " + args[0] + " " + outcomeWords(resp.GetOutcome()) + ".") })
	})
	return cmd
}
