// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/gateway/runtime"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/written"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == runtime.InitArg {
		os.Exit(runtime.Init(os.Args[2:]))
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	os.Exit(run(context.Background(), signals, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main without the process around it. It returns the exit status: 0
// done, 1 failed, 2 usage.
func run(ctx context.Context, signals <-chan os.Signal, args, environ []string, stdout, stderr io.Writer) int {
	status := 2
	root := &cobra.Command{
		Use:           "sandbox-gateway",
		Short:         "Serves users and SDKs, and accepts the agents of sandboxes",
		Version:       buildinfo.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetArgs(args)
	printed := written.New(stdout)
	root.SetOut(printed)
	root.SetErr(stderr)
	root.AddCommand(serveCommand(signals, environ, &status), checkCommand(environ, &status), versionCommand(), manCommand())
	err := root.ExecuteContext(ctx)
	if failed := printed.Err(); failed != nil {
		err, status = failed, 1
	}
	if err != nil {
		fmt.Fprintf(stderr, "sandbox-gateway: %v\n", err)
		if status == 2 {
			fmt.Fprintln(stderr, "See sandbox-gateway --help.")
		}
		return status
	}
	return 0
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
