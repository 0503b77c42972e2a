// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/internal/manpage"
)

func manCommand() *cobra.Command {
	return manpage.Command([]manpage.Section{
		{Title: "ENVIRONMENT", Text: "Every flag can be set as " + envPrefix + "FLAG_NAME (--drain-grace as " + envPrefix + "DRAIN_GRACE). " +
			databaseURL + " is the postgres:// URL of the database."},
		{Title: "FILES", Text: "/etc/sandbox-gateway/config.yaml is read by sandbox-gateway.service. The sockets are held by sandbox-gateway-grpc.socket, -http.socket, " +
			"-supervisor.socket, -local.socket and -ops.socket. The credential " + databaseCredential + " is the URL of the database; the service takes it from the " +
			"machine's credentials, /etc/credstore and /run/credstore. /var/lib/sandbox-gateway holds keys, the admin token and the SQLite database."},
		{Title: "SIGNALS", Text: "SIGTERM and SIGINT drain: the gateway is not ready at once, goes on serving for --drain-grace, then stops. A second one cuts the grace. " +
			"SIGHUP makes it read log-level again."},
		{Title: "EXIT STATUS", Text: "0 done, also after SIGTERM; 1 failed; 2 usage."},
	}, "sandbox-agent(1)", "sandboxctl(1)", "systemd.socket(5)")
}
