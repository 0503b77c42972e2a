// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/gateway"
	"github.com/sandbox-agent/sandbox-agent/internal/sdnotify"
)

func serveCommand(signals <-chan os.Signal, environ []string, status *int) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Run the gateway until SIGTERM or SIGINT, then drain; a second signal cuts the grace.\n" +
			"Every flag can be set as " + envPrefix + "FLAG_NAME too, or in the file given by --config.\n" +
			"PostgreSQL instead of SQLite is chosen by " + databaseURL + ", or the credential " + databaseCredential + ".\n" +
			"SIGHUP makes the gateway read log-level again. Sockets that a service manager passes replace the\n" +
			"addresses; their names are grpc, http, supervisor, supervisor-socket and ops.",
		Example: "  sandbox-gateway serve --state-dir /var/lib/sandbox-gateway",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.load(cmd, environ); err != nil {
				return err
			}
			var level slog.LevelVar
			logger, err := o.logger(cmd.ErrOrStderr(), &level)
			if err != nil {
				return err
			}
			*status = 1
			// A log that nobody reads any more is no reason to end.
			broken := make(chan os.Signal, 1)
			signal.Notify(broken, syscall.SIGPIPE)
			defer signal.Stop(broken)
			if o.gateway.Inherited, err = inherited(); err != nil {
				return err
			}
			r := &reloader{cmd: cmd, environ: environ, level: &level, logger: logger}
			return serve(cmd.Context(), signals, o.gateway, logger, environ, r)
		},
	}
	o.register(cmd)
	return cmd
}

func serve(ctx context.Context, signals <-chan os.Signal, cfg gateway.Config, logger *slog.Logger, environ []string, r *reloader) error {
	notifier, err := sdnotify.New(lookup(environ), os.Getpid())
	if err != nil {
		return err
	}
	failed := func(err error) { logger.Warn("telling the service manager failed", "error", err) }
	notify := func(message ...string) {
		if err := notifier.Notify(message...); err != nil {
			failed(err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cut := make(chan struct{})
	defer background(ctx, func(ctx context.Context) {
		act(ctx, signals, func() {
			if err := notifier.Reload(r.reload); err != nil {
				failed(err)
			}
		}, cancel, func() { close(cut) })
	})()
	g, err := gateway.New(ctx, cfg, logger)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it had begun
		}
		return err
	}
	defer background(ctx, func(ctx context.Context) {
		notifier.Run(ctx, sdnotify.Pulse{
			Alive:  func() bool { return g.Alive(time.Now()) },
			Status: g.Summary,
			Failed: failed,
		})
	})()
	return g.Run(ctx, gateway.Hooks{
		Ready: func() {
			logger.Info("gateway started", "state_dir", cfg.StateDir)
			notify(sdnotify.Ready)
		},
		Stopping: func() { notify(sdnotify.Stopping, "STATUS="+g.Summary()) },
		Cut:      cut,
	})
}

// act turns signals into acts until ctx ends: SIGHUP reloads, the first other
// signal takes the first step, the second the second.
func act(ctx context.Context, signals <-chan os.Signal, reload func(), steps ...func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				reload()
			case len(steps) > 0:
				steps[0]()
				steps = steps[1:]
			}
		}
	}
}

// background runs f until the returned function is called, which waits for
// its end.
func background(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	return func() { cancel(); <-done }
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
