// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/gateway"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/internal/sdnotify"
)

func serveCommand(signals <-chan os.Signal, environ []string, status *int) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Run the gateway until SIGTERM or SIGINT, then drain; a second signal cuts the grace.\n" +
			"Every flag can be set as " + envPrefix + "FLAG_NAME too, or in the file given by --config.\n" +
			"PostgreSQL instead of SQLite is chosen by " + databaseURL + ".",
		Example: "  sandbox-gateway serve --state-dir /var/lib/sandbox-gateway",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.load(cmd, environ); err != nil {
				return err
			}
			logger, err := obs.NewLogger(cmd.ErrOrStderr(), o.logLevel, o.logFormat)
			if err != nil {
				return err
			}
			*status = 1
			return serve(cmd.Context(), signals, o.gateway, logger, environ)
		},
	}
	o.register(cmd)
	return cmd
}

func serve(ctx context.Context, signals <-chan os.Signal, cfg gateway.Config, logger *slog.Logger, environ []string) error {
	notifier, err := sdnotify.New(lookup(environ), os.Getpid())
	if err != nil {
		return err
	}
	notify := func(message ...string) {
		if err := notifier.Notify(message...); err != nil {
			logger.Warn("telling the service manager failed", "error", err)
		}
	}
	g, err := gateway.New(ctx, cfg, logger)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cut := make(chan struct{})
	stopped := make(chan struct{})
	defer close(stopped)
	go func() { // the first signal drains, the second cuts the grace
		for _, act := range []func(){cancel, func() { close(cut) }} {
			select {
			case <-signals:
				act()
			case <-stopped:
				return
			}
		}
	}()
	return g.Run(ctx, gateway.Hooks{
		Ready: func() {
			logger.Info("gateway started", "state_dir", cfg.StateDir)
			notify(sdnotify.Ready)
		},
		Stopping: func() { notify(sdnotify.Stopping, "STATUS=draining") },
		Cut:      cut,
	})
}

// lookup reads a variable of an environment.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range environ {
			if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
				return kv[len(name)+1:]
			}
		}
		return ""
	}
}

func checkCommand(environ []string, status *int) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and exit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			*status = 1
			if err := o.load(cmd, environ); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return err
		},
	}
	o.register(cmd)
	return cmd
}
