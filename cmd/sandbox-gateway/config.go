// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/gateway"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/settings"
)

const (
	envPrefix   = "SANDBOX_GATEWAY_"
	databaseURL = envPrefix + "DATABASE_URL"
)

// options are the flags of serve and check.
type options struct {
	gateway   gateway.Config
	file      string
	logLevel  string
	logFormat string
}

func (o *options) register(cmd *cobra.Command) {
	o.gateway = gateway.DefaultConfig()
	c, f := &o.gateway, cmd.Flags()
	f.StringVar(&c.StateDir, "state-dir", c.StateDir, "directory of credentials, database and sandboxes' files")
	f.StringVar(&c.GRPCListen, "grpc-listen", c.GRPCListen, "address of the API (gRPC over TLS)")
	f.StringVar(&c.HTTPListen, "http-listen", c.HTTPListen, "address of HTTP for users and load balancers")
	f.StringVar(&c.SupervisorListen, "supervisor-listen", c.SupervisorListen, "address that agents dial (TLS)")
	f.StringVar(&c.SupervisorSocket, "supervisor-socket", "", "unix socket for agents on this host (default STATE_DIR/supervisor/agent.sock)")
	f.StringVar(&c.OpsListen, "ops-listen", c.OpsListen, "address of metrics, health and profiles, for operators")
	f.StringVar(&c.RoutingDomain, "routing-domain", c.RoutingDomain, "parent domain of the services' host names")
	f.DurationVar(&c.DrainGrace, "drain-grace", c.DrainGrace, "how long to go on serving after SIGTERM")
	f.StringSliceVar(&c.TLSNames, "tls-names", nil, "host names and addresses, beside loopback's, for the server certificate")
	f.StringVar(&c.Driver, "driver", c.Driver, "driver of sandboxes that name none: external or local")
	f.StringVar(&c.AgentPath, "agent-path", "", "sandbox-agent binary of local sandboxes (default beside this one, then PATH)")
	f.DurationVar(&c.TokenLifetime, "token-lifetime", c.TokenLifetime, "validity of sandbox tokens; agents renew them at half of it")
	f.StringVar(&o.file, "config", "", "YAML file with these settings, named as the flags are")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

// load completes the options from environment and file, and checks them.
func (o *options) load(cmd *cobra.Command, environ []string) error {
	if err := settings.Fill(cmd.Flags(), o.file, envPrefix, environ, "config", "help"); err != nil {
		return err
	}
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, databaseURL+"="); ok {
			o.gateway.DatabaseURL = secret.New(v)
		}
	}
	return o.gateway.Validate()
}
