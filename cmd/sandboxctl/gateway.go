// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func (a *app) gatewayCommand() *cobra.Command {
	cmd := group("gateway", "Look at the gateway itself", a.gatewayStatus())
	cmd.Example = `  sandboxctl gateway status`
	return cmd
}
