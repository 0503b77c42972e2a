// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) completionCommand() *cobra.Command {
	shell := choice{flag: "SHELL", of: []string{"bash", "zsh", "fish"}}
	cmd := command("completion SHELL", "Print the completion script for bash, zsh or fish",
		`  sandboxctl completion bash
  sandboxctl completion zsh
  sandboxctl completion fish`, "SHELL")
	cmd.Long = `Completion prints a script that completes commands, flags and names of sandboxes.
For the shell at hand: source <(sandboxctl completion bash). For every one, write
it to where the shell looks: /etc/bash_completion.d/sandboxctl for bash,
"${fpath[1]}/_sandboxctl" for zsh, ~/.config/fish/completions/sandboxctl.fish.`
	cmd.ValidArgs = shell.of
	cmd.PreRunE = func(_ *cobra.Command, args []string) error { return shell.Set(args[0]) }
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		root := cmd.Root()
		write := map[string]func() error{
			"bash": func() error { return root.GenBashCompletionV2(a.stdout, true) },
			"zsh":  func() error { return root.GenZshCompletion(a.stdout) },
			"fish": func() error { return root.GenFishCompletion(a.stdout, true) },
		}[shell.value]
		if err := write(); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
		return nil
	}
	return cmd
}

// A shell waits for completions: an answer that takes longer is not worth it.
const completionTime = 2 * time.Second

// completeService offers the names of sandboxes for the first argument and of
// its services for the second.
func (a *app) completeService(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return a.completeSandbox(cmd, args, word)
	}
	return a.names(cmd, func(ctx context.Context, c *sandbox.Client, add func(string)) error {
		for s, err := range c.Services(ctx, &openshellv1.ListServicesRequest{PageSize: pageSize, Sandbox: args[0], WorkspaceScope: a.scope()}) {
			if err != nil {
				return err
			}
			if name := s.GetEndpoint().GetName(); name != "" {
				add(name)
			}
		}
		return nil
	})
}

// completeSandbox offers the names of sandboxes for the first argument.
func (a *app) completeSandbox(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.names(cmd, func(ctx context.Context, c *sandbox.Client, add func(string)) error {
		for s, err := range c.Sandboxes(ctx, &openshellv1.ListSandboxesRequest{PageSize: pageSize, WorkspaceScope: a.scope()}) {
			if err != nil {
				return err
			}
			add(s.GetMetadata().GetName())
		}
		return nil
	})
}

// names asks a gateway for names that a shell can offer. Without a gateway
// there are none, silently.
func (a *app) names(cmd *cobra.Command, ask func(ctx context.Context, c *sandbox.Client, add func(string)) error) ([]string, cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	a.flags.timeout = min(a.flags.timeout, patience(completionTime))
	var names []string
	err := a.calling(func(ctx context.Context, c *sandbox.Client, _ []string) error {
		return ask(ctx, c, func(name string) {
			if name == clean(name) {
				names = append(names, name)
			}
		})
	})(cmd, nil)
	if err != nil {
		return nil, nothing
	}
	return names, nothing
}
