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

	"github.com/sandbox-agent/sandbox-agent/agent"
	"github.com/sandbox-agent/sandbox-agent/agent/command"
	"github.com/sandbox-agent/sandbox-agent/internal/sdnotify"
)

func runCommand(signals <-chan os.Signal, environ []string, out *outcome) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run [flags] [-- COMMAND ...]",
		Short: "Run the agent, and a command under it",
		Long: "Run the agent until SIGTERM or SIGINT, or until COMMAND has ended; then exit with its status.\n" +
			"As process 1 of a container the agent reaps orphans too. Other signals go to COMMAND;\n" +
			"without one, SIGHUP makes the agent read log-level and service again.\n" +
			"Every flag can be set as " + envPrefix + "FLAG_NAME too, or in the file given by --config.",
		Example: "  sandbox-agent run --gateway https://gateway.example:17690 --token-file /run/sandbox/token --ca-file /run/sandbox/ca.crt -- python3 -m http.server 8080\n" +
			"  sandbox-agent run --service web=8080 --service api=9000/readyz",
		Args: commandAfterDash,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.load(cmd, environ); err != nil {
				return err
			}
			var level slog.LevelVar
			logger, err := o.logger(cmd.ErrOrStderr(), &level)
			if err != nil {
				return err
			}
			out.accepted = true
			// A log that nobody reads any more is no reason to end.
			broken := make(chan os.Signal, 1)
			signal.Notify(broken, syscall.SIGPIPE)
			defer signal.Stop(broken)
			o.agent.Logger = logger
			r := &reloader{cmd: cmd, environ: environ, level: &level, logger: logger}
			out.code, err = runAgent(cmd.Context(), signals, o.agent, args, environ, r)
			return err
		},
	}
	o.register(cmd)
	return cmd
}

// commandAfterDash keeps a mistyped flag from being run as a program.
func commandAfterDash(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return fmt.Errorf("%.64q: COMMAND comes after --", args[0])
	}
	return nil
}

// runAgent runs the agent, its command, and the reaper where this is process 1.
func runAgent(ctx context.Context, signals <-chan os.Signal, cfg agent.Config, argv, environ []string, r *reloader) (int, error) {
	notifier, err := sdnotify.New(lookup(environ), os.Getpid())
	if err != nil {
		return 1, err
	}
	failed := func(err error) { cfg.Logger.Warn("telling the service manager failed", "error", err) }
	notify := func(message ...string) {
		if err := notifier.Notify(message...); err != nil {
			failed(err)
		}
	}
	forwarded := make(chan os.Signal, 16)
	if len(argv) > 0 {
		cfg.Command = &command.Config{
			Argv: argv, Env: public(environ), Stdout: os.Stdout, Stderr: os.Stderr,
			Signals: forwarded, Logger: cfg.Logger,
		}
		if os.Getpid() == 1 {
			reaper := command.NewReaper(cfg.Logger)
			cfg.Command.Reaper = reaper
			defer background(ctx, func(ctx context.Context) { reaper.Run(ctx) })()
		}
	}
	a, err := agent.New(cfg)
	if err != nil {
		return 1, err
	}
	defer background(ctx, func(ctx context.Context) {
		notifier.Run(ctx, sdnotify.Pulse{
			Alive:  func() bool { return a.Alive(time.Now()) },
			Status: func() string { return a.Summary(time.Now()) },
			Failed: failed,
		})
	})()
	asked, stop := context.WithCancel(ctx)
	defer stop()
	hup := func() {}
	if len(argv) == 0 {
		hup = func() {
			if err := notifier.Reload(func() { r.reload(a) }); err != nil {
				failed(err)
			}
		}
	}
	defer background(ctx, func(ctx context.Context) { relay(ctx, stop, hup, signals, forwarded) })()
	cfg.Logger.Info("agent started", "ops", a.OpsAddr().String())
	return a.Run(asked, agent.Hooks{
		Ready:    func() { notify(sdnotify.Ready) },
		Stopping: func() { notify(sdnotify.Stopping, "STATUS=stopping") },
	})
}

// background runs f until the returned function is called, which waits for
// its end.
func background(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	return func() { cancel(); <-done }
}

// relay hands signals on: those that mean stop end ctx, the others are the
// command's. hup is called for SIGHUP too, and does nothing if that is the
// command's.
func relay(ctx context.Context, stop, hup func(), signals <-chan os.Signal, forwarded chan<- os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			switch s {
			case syscall.SIGTERM, syscall.SIGINT:
				stop()
				return
			case syscall.SIGHUP:
				hup()
			}
			select {
			case forwarded <- s:
			default: // nobody takes them, or too slowly
			}
		}
	}
}
