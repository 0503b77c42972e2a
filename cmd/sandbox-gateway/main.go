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
	out := &output{w: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	root.AddCommand(serveCommand(signals, environ, &status), checkCommand(environ, &status), versionCommand(), manCommand())
	err := root.ExecuteContext(ctx)
	if out.err != nil {
		err, status = out.err, 1
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

// output is a standard output that remembers that it failed: a result which
// nobody got is none.
type output struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.err = fmt.Errorf("write the result: %w", err)
	}
	return n, err
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
