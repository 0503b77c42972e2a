// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

func checkCommand(environ []string, out *outcome) *cobra.Command {
	var o options
	var attempt bool
	cmd := &cobra.Command{
		Use:     "check [flags] | check --probe PORT [PATH]",
		Short:   "Check the configuration, or make one attempt and show what it saw",
		Example: "  sandbox-agent check --config /etc/sandbox-agent/config.yaml\n  sandbox-agent check --probe 8080 /readyz",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if attempt {
				return probeOnce(cmd.Context(), cmd.OutOrStdout(), args, out)
			}
			if len(args) > 0 {
				return errors.New("arguments are for --probe")
			}
			out.accepted = true
			if err := o.load(cmd, environ); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return err
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&attempt, "probe", false, "make one attempt at PORT, at the readiness path PATH if given")
	return cmd
}

// probeOnce makes one attempt. Its exit status is 1 unless it passed.
func probeOnce(ctx context.Context, w io.Writer, args []string, out *outcome) error {
	if len(args) == 0 {
		return errors.New("--probe needs PORT")
	}
	port, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		return fmt.Errorf("PORT: %q is not a number in 1..65535", args[0])
	}
	t := probe.Target{Port: uint16(port)}
	if len(args) == 2 {
		if t.Path = args[1]; t.Path == "" {
			t.Path = "/"
		}
	}
	if err := t.Validate(); err != nil {
		return err
	}
	out.accepted = true
	a := probe.NewHTTP("sandbox-agent/"+buildinfo.Version).Attempt(ctx, t)
	fmt.Fprintf(w, "outcome: %v\nreason: %v\nlatency: %v\n", a.Outcome, a.Reason, a.Latency.Round(10*time.Microsecond))
	if a.Code != 0 {
		fmt.Fprintf(w, "status: %d\n", a.Code)
	}
	if a.Addr.IsValid() {
		fmt.Fprintf(w, "address: %v\n", a.Addr)
	}
	if a.Outcome != probe.Pass {
		out.code = 1
	}
	return nil
}
