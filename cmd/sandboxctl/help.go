// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// helpCommand makes "sandboxctl help service get" the same as
// "sandboxctl service get --help".
func helpCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "help [COMMAND...]", Short: "Show the help of a command", DisableFlagsInUseLine: true}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		about, rest, err := cmd.Root().Find(args)
		if err != nil {
			return usageIn(cmd, "%w", err)
		}
		if len(rest) > 0 && about.HasSubCommands() {
			return about.Args(about, rest)
		}
		about.InitDefaultHelpFlag() // as --help shows it
		return about.Help()
	}
	return cmd
}
