// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/gateway"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/settings"
)

const (
	envPrefix   = "SANDBOX_GATEWAY_"
	databaseURL = envPrefix + "DATABASE_URL"
	// Credentials of the service manager (systemd.exec(5)).
	credentialsVar     = "CREDENTIALS_DIRECTORY"
	databaseCredential = "sandbox-database-url"
)

// options are the flags of serve and check.
type options struct {
	gateway   gateway.Config
	file      string
	logLevel  string
	logFormat string
	euid      int
}

func (o *options) register(cmd *cobra.Command) {
	o.gateway, o.euid = gateway.DefaultConfig(), os.Geteuid()
	c, f := &o.gateway, cmd.Flags()
	f.StringVar(&c.StateDir, "state-dir", c.StateDir, "directory of credentials, database and sandboxes' files; of others than root, ~/.local/state/sandbox-gateway")
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
	f.StringVar(&o.logFormat, "log-format", "text", "text, json, or journal: text for systemd's journal")
}

// load completes the options from environment and file, and checks them.
func (o *options) load(cmd *cobra.Command, environ []string) error {
	// Before Fill, which replaces it by what environment and file say.
	if !cmd.Flags().Changed("state-dir") {
		o.gateway.StateDir = stateDirOf(o.gateway.StateDir, o.euid, lookup(environ))
	}
	if err := settings.Fill(cmd.Flags(), o.file, envPrefix, environ, "config", "help"); err != nil {
		return err
	}
	if _, err := o.logger(io.Discard, new(slog.LevelVar)); err != nil {
		return err
	}
	url, err := readDatabaseURL(lookup(environ))
	if err != nil {
		return err
	}
	o.gateway.DatabaseURL = url
	return o.gateway.Validate()
}

// maxURL bounds what is read as a URL, in bytes.
const maxURL = 64 << 10

// readDatabaseURL returns the URL that the environment or a credential of the
// service manager holds; the zero String if neither does.
func readDatabaseURL(env func(string) string) (none secret.String, err error) {
	if v := env(databaseURL); v != "" {
		return secret.New(v), nil
	}
	dir := env(credentialsVar)
	if dir == "" {
		return none, nil
	}
	f, err := os.Open(filepath.Join(dir, databaseCredential))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("credential: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxURL+1))
	if err != nil {
		return none, fmt.Errorf("credential: %w", err)
	}
	if len(b) > maxURL {
		return none, fmt.Errorf("credential: %s has more than %d bytes", databaseCredential, maxURL)
	}
	return secret.New(strings.TrimSpace(string(b))), nil
}

// logger returns the logger that the options ask for, and sets its level.
func (o *options) logger(w io.Writer, level *slog.LevelVar) (*slog.Logger, error) {
	l, err := obs.ParseLevel(o.logLevel)
	if err != nil {
		return nil, err
	}
	level.Set(l)
	return obs.NewLogger(w, level, o.logFormat)
}
