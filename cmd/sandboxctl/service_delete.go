// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceDelete() *cobra.Command {
	var missing bool
	cmd := command("delete SANDBOX [NAME] [flags]", "Stop exposing a service",
		`  sandboxctl service delete web
  sandboxctl service delete web old --allow-missing`, "SANDBOX", "[NAME]")
	cmd.Flags().BoolVar(&missing, "allow-missing", false, "succeed if there is no such service")
	cmd.ValidArgsFunction = a.completeService
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		name := optional(args, 1)
		resp, err := c.DeleteService(ctx, &openshellv1.DeleteServiceRequest{
			Sandbox: args[0], Name: name, WorkspaceScope: a.scope(), AllowMissing: missing, RequestId: sandbox.NewRequestID(),
		})
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { p.line(serviceWords(args[0], name) + " " + outcomeWords(resp.GetOutcome()) + ".") })
	})
	return cmd
}
