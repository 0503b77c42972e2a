// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceList() *cobra.Command {
	var all bool
	var scope *datamodelv1.WorkspaceSelector
	cmd := command("list [SANDBOX] [flags]", "List services and their health",
		`  sandboxctl service list
  sandboxctl service list web
  sandboxctl service list --all-workspaces -o json`, "[SANDBOX]")
	cmd.Flags().BoolVarP(&all, "all-workspaces", "A", false, "list every workspace")
	cmd.ValidArgsFunction = a.completeSandbox
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		scope, err = a.listScope(cmd, all)
		return err
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp := &openshellv1.ListServicesResponse{}
		for s, err := range c.Services(ctx, &openshellv1.ListServicesRequest{PageSize: pageSize, Sandbox: optional(args, 0), WorkspaceScope: scope}) {
			if err != nil {
				return err
			}
			resp.Services = append(resp.Services, s)
		}
		if a.flags.output.value == formatTable && len(resp.Services) == 0 {
			a.note("No services%s.", a.whereWords(all))
			return nil
		}
		return a.show(resp, func(p *page) { drawServices(p, resp.GetServices(), all, a.now()) })
	})
	return cmd
}
