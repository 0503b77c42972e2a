// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := command("version [flags]", "Print the version of this command",
		`  sandboxctl version
  sandboxctl version -o json`)
	cmd.Long = "Version prints the version of this command. That of the gateway is in `sandboxctl gateway status`."
	cmd.RunE = func(*cobra.Command, []string) error {
		return a.showAs(
			func(p *page) { p.line("sandboxctl " + buildinfo.Version) },
			func() ([]byte, error) { return json.Marshal(map[string]string{"version": buildinfo.Version}) },
		)
	}
	return cmd
}
