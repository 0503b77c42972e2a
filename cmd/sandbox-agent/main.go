// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/agent/command"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/written"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, append(command.Forwarded(), syscall.SIGTERM, syscall.SIGINT)...)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25) // a small heap: trades a little CPU for resident memory
	}
	os.Exit(run(context.Background(), signals, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// outcome is what a subcommand leaves behind: until accepted is set, an error
// is one of usage.
type outcome struct {
	accepted bool
	code     int
}

// run is main without the process around it. It returns the exit status: 0
// done, 1 failed, 2 usage, or that of the command.
func run(ctx context.Context, signals <-chan os.Signal, args, environ []string, stdout, stderr io.Writer) int {
	var out outcome
	root := &cobra.Command{
		Use:           "sandbox-agent",
		Short:         "Observes the HTTP services of the sandbox it runs in, and tells its gateway",
		Version:       buildinfo.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	printed := written.New(stdout)
	root.SetOut(printed)
	root.SetErr(stderr)
	root.AddCommand(runCommand(signals, environ, &out), statusCommand(environ, &out), checkCommand(environ, &out), versionCommand(), manCommand())
	err := root.ExecuteContext(ctx)
	if failed := printed.Err(); failed != nil {
		err, out.accepted = failed, true
	}
	if err == nil {
		return out.code
	}
	fmt.Fprintf(stderr, "sandbox-agent: %v\n", err)
	if !out.accepted {
		fmt.Fprintln(stderr, "See sandbox-agent --help.")
		return 2
	}
	return max(out.code, 1)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), buildinfo.Version)
			return err
		},
	}
}
