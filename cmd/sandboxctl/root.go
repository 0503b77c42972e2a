// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const defaultTimeout = 30 * time.Second

func (a *app) root() *cobra.Command {
	a.flags = globals{
		gateway:   text{flag: "--gateway"},
		tokenFile: text{flag: "--token-file"},
		caFile:    text{flag: "--ca-file"},
		stateDir:  text{flag: "--state-dir"},
		output:    choice{flag: "--output", value: formatTable, of: []string{formatTable, formatJSON, formatYAML}},
		timeout:   patience(defaultTimeout),
	}
	root := group("sandboxctl", "Sandboxes, their services and how they are",
		a.sandboxCommand(), a.serviceCommand(), a.gatewayCommand(), a.versionCommand(), a.completionCommand(), manCommand())
	root.Long = `sandboxctl talks to a sandbox gateway: it makes sandboxes, exposes HTTP services
inside them, and says whether they are ready.

It finds a gateway of this machine by itself. Environment: SANDBOX_GATEWAY,
SANDBOX_TOKEN, SANDBOX_TOKEN_FILE, SANDBOX_CA_FILE, SANDBOX_WORKSPACE,
SANDBOX_GATEWAY_STATE_DIR, NO_COLOR. Flags win over the environment.

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 timed out.`
	root.Example = `  sandboxctl sandbox create web --expose 8080 --driver local -- python3 -m http.server 8080
  sandboxctl service list`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(a.stdin)
	root.SetErr(a.stderr)
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(flagError)

	f := root.PersistentFlags()
	f.SortFlags = false
	f.Var(&a.flags.gateway, "gateway", "`URL` of the gateway, https://HOST:PORT [SANDBOX_GATEWAY]")
	f.Var(&a.flags.tokenFile, "token-file", "`FILE` that holds the token [SANDBOX_TOKEN_FILE]")
	f.Var(&a.flags.caFile, "ca-file", "PEM `FILE` of the authority that signs the gateway's certificate [SANDBOX_CA_FILE]")
	f.Var(&a.flags.stateDir, "state-dir", "state `DIR` of a gateway of this machine [SANDBOX_GATEWAY_STATE_DIR]")
	f.StringVarP(&a.flags.workspace, "workspace", "w", "", "`NAME` of the workspace to work in (default \"default\") [SANDBOX_WORKSPACE]")
	f.VarP(&a.flags.output, "output", "o", "table, json (protobuf JSON) or yaml")
	f.Var(&a.flags.timeout, "timeout", "give up after this `TIME`")
	for name, of := range map[string][]string{"output": a.flags.output.of, "gateway": nil, "workspace": nil} {
		complete(root, name, of)
	}
	return root
}

// group makes a command that only holds others.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, DisableFlagsInUseLine: true}
	cmd.AddCommand(commands...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
		slices.Sort(names)
		if len(args) == 0 {
			return usageIn(cmd, "needs a command: one of %s", strings.Join(names, ", "))
		}
		if alike := cmd.SuggestionsFor(args[0]); len(alike) > 0 {
			return usageIn(cmd, "there is no command %q: did you mean %s?", args[0], strings.Join(alike, " or "))
		}
		return usageIn(cmd, "there is no command %q: it is one of %s", args[0], strings.Join(names, ", "))
	}
	cmd.RunE = func(*cobra.Command, []string) error { return errors.ErrUnsupported } // Args has refused already
	return cmd
}

// command makes a command of its own; args are its positional arguments, in
// brackets when they may be absent.
func command(use, short, example string, args ...string) *cobra.Command {
	return &cobra.Command{
		Use:                   use,
		Short:                 short,
		Example:               example,
		DisableFlagsInUseLine: true,
		Args:                  positional(args...),
	}
}

// positional checks the number of arguments and says which one is missing or
// too many. "[NAME]" may be absent.
func positional(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return usageIn(cmd, "takes %s: %q is one too many", plural(len(names), "argument"), args[len(names)])
		}
		for i, name := range names {
			if i >= len(args) {
				if !strings.HasPrefix(name, "[") {
					return usageIn(cmd, "needs %s", name)
				}
				continue
			}
			if args[i] == "" && !strings.HasPrefix(name, "[") {
				return usageIn(cmd, "needs %s, and it is empty", name)
			}
		}
		return nil
	}
}

// complete names the values that a shell offers for a flag; none at all stops
// it from offering files.
func complete(cmd *cobra.Command, flag string, values []string) {
	// The error is about a flag that does not exist or is completed twice.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
