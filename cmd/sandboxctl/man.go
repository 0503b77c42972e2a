// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/internal/manpage"
)

func manCommand() *cobra.Command {
	return manpage.Command([]manpage.Section{
		{Title: "FILES", Text: "client.json in the state directory of a gateway of this machine names its address, authority and token: " +
			"/var/lib/sandbox-gateway for root, otherwise $XDG_STATE_HOME/sandbox-gateway or ~/.local/state/sandbox-gateway."},
	}, "sandbox-gateway(1)", "sandbox-agent(1)")
}
