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

func (a *app) sandboxList() *cobra.Command {
	var all bool
	var scope *datamodelv1.WorkspaceSelector
	selector := text{flag: "--selector"}
	cmd := command("list [flags]", "List sandboxes",
		`  sandboxctl sandbox list
  sandboxctl sandbox list --all-workspaces
  sandboxctl sandbox list --selector team=blue,tier=web -o yaml`)
	cmd.Flags().BoolVarP(&all, "all-workspaces", "A", false, "list every workspace")
	cmd.Flags().VarP(&selector, "selector", "l", "only those with all of these `LABELS`, KEY=VALUE[,KEY=VALUE...]")
	complete(cmd, "selector", nil)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		scope, err = a.listScope(cmd, all)
		return err
	}
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, _ []string) error {
		resp := &openshellv1.ListSandboxesResponse{}
		for s, err := range c.Sandboxes(ctx, &openshellv1.ListSandboxesRequest{PageSize: pageSize, LabelSelector: selector.value, WorkspaceScope: scope}) {
			if err != nil {
				return err
			}
			resp.Sandboxes = append(resp.Sandboxes, s)
		}
		if a.flags.output.value == formatTable && len(resp.Sandboxes) == 0 {
			a.note("No sandboxes%s.", a.whereWords(all))
			return nil
		}
		return a.show(resp, func(p *page) { a.drawSandboxes(p, resp.GetSandboxes(), all) })
	})
	return cmd
}

func (a *app) drawSandboxes(p *page, list []*openshellv1.Sandbox, all bool) {
	columns := []column{{"NAME", 0}, {"PHASE", 0}, {"DRIVER", 2}, {"AGE", 1}}
	var rows [][]cell
	for _, s := range list {
		m := s.GetMetadata()
		rows = append(rows, []cell{
			val(m.GetName()),
			toned(phaseWords(s.GetStatus())),
			val(m.GetAnnotations()[driverAnnotation]),
			val(ageWords(instant(m.GetCreatedTime()), a.now())),
		})
	}
	if all {
		columns = append([]column{{"WORKSPACE", 0}}, columns...)
		for i, s := range list {
			rows[i] = append([]cell{val(s.GetMetadata().GetWorkspace())}, rows[i]...)
		}
	}
	p.table(columns, rows)
}

// whereWords says where a list looked: " in workspace blue", or nothing for
// all of them.
func (a *app) whereWords(all bool) string {
	switch {
	case all:
		return ""
	case a.workspace() == "":
		return " in workspace default"
	}
	return " in workspace " + a.workspace()
}
