// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceExpose() *cobra.Command {
	var path string
	cmd := command("expose SANDBOX PORT [NAME] [flags]", "Expose a loopback port of a sandbox as an HTTP service, or change one",
		`  sandboxctl service expose web 8080
  sandboxctl service expose web 8000 docs
  sandboxctl service expose web 8080 --readiness-path /readyz`, "SANDBOX", "PORT", "[NAME]")
	cmd.Long = `Expose makes a service, or changes the one that has this name; without NAME it is
the unnamed service of the sandbox.

With --readiness-path the service is ready while GET on that path answers 2xx.
Without it a new service is responsive while GET / gets any answer, and an
existing one keeps the check that it has: to take a check away, delete the
service and expose it again.`
	cmd.Flags().StringVar(&path, "readiness-path", "", "the service is ready when GET on this `PATH` answers 2xx")
	complete(cmd, "readiness-path", nil)
	cmd.ValidArgsFunction = a.completeSandbox
	var port uint32
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if port, err = parsePort(args[1]); err != nil {
			return usageIn(cmd, "%w", err)
		}
		return nil
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		req := &openshellv1.ExposeServiceRequest{
			Sandbox: args[0], Name: optional(args, 2), TargetPort: port,
			WorkspaceScope: a.scope(), RequestId: sandbox.NewRequestID(),
		}
		if cmd.Flags().Changed("readiness-path") {
			req.ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: path}
		}
		resp, err := c.ExposeService(ctx, req)
		if err != nil {
			return err
		}
		return a.show(resp, func(p *page) { drawService(p, resp, a.now()) })
	})
	return cmd
}

// optional returns the argument at i, or nothing.
func optional(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
