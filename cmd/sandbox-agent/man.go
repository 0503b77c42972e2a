// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/internal/manpage"
)

func manCommand() *cobra.Command {
	return manpage.Command([]manpage.Section{
		{Title: "ENVIRONMENT", Text: "Every flag of run and check can be set as " + envPrefix + "FLAG_NAME (--ops-listen as " + envPrefix + "OPS_LISTEN). " +
			tokenVar + " holds the sandbox token itself."},
		{Title: "FILES", Text: "/etc/sandbox-agent/config.yaml is read by sandbox-agent.service. The service takes the credentials " +
			tokenCredential + " (the sandbox token) and " + caCredential + " (the authority that signs the gateway's certificate, PEM) from the machine's credentials, " +
			"/etc/credstore and /run/credstore, and keeps the renewed token in /var/lib/sandbox-agent."},
		{Title: "SIGNALS", Text: "SIGTERM and SIGINT end the agent and its COMMAND. SIGHUP makes an agent without COMMAND read log-level and service again; " +
			"all other signals, and SIGHUP, go to COMMAND."},
		{Title: "EXIT STATUS", Text: "0 done, also after SIGTERM; 1 failed; 2 usage. With a COMMAND its status, or 128 + the number of the signal that ended it; " +
			"126 if it cannot be run, 127 if it does not exist."},
	}, "sandbox-gateway(1)", "sandboxctl(1)", "systemd.exec(5)")
}
