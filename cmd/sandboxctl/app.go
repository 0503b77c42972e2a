// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/written"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// app is one run of the command. The fields above the line are its world,
// which tests replace.
type app struct {
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	euid           int
	// terminal returns the width of the terminal behind w; ok is false if
	// there is none.
	terminal func(w io.Writer) (width int, ok bool)
	// height returns how many lines that terminal has; 0 if nobody knows.
	height func(w io.Writer) int
	// launch starts another program and waits for a moment whether it fails.
	launch func(ctx context.Context, name string, args ...string) error

	flags globals
	where sandbox.Found // set once the gateway is found; for messages
}

// globals are the flags of every command.
type globals struct {
	gateway   text
	tokenFile text
	caFile    text
	stateDir  text
	workspace string
	output    choice
	timeout   patience
}

// run carries out one command line and returns the exit code.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{
		env: environment(env), stdin: stdin, stdout: stdout, stderr: stderr,
		now: time.Now, euid: os.Geteuid(), terminal: terminalOf, height: heightOf, launch: launch,
	}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	own := written.New(a.stdout)              // cobra does not look at what becomes of help and completions
	root.SetOut(own)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = own.Err()
	}
	return a.report(err)
}

func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

func terminalOf(w io.Writer) (int, bool) {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, true // a terminal of unknown width: nothing is hidden
	}
	return width, true
}

func heightOf(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	_, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return height
}

// redraws reports whether what was written to w can be written over.
func (a *app) redraws(w io.Writer) bool {
	_, ok := a.terminal(w)
	return ok && a.env["TERM"] != "dumb"
}

// colour reports whether w shows colours and its reader wants them.
func (a *app) colour(w io.Writer) bool {
	_, ok := a.terminal(w)
	return ok && a.env["NO_COLOR"] == "" && a.env["TERM"] != "dumb"
}

// handler is the body of a command that talks to a gateway.
type handler func(ctx context.Context, c *sandbox.Client, args []string) error

// calling finds the gateway, dials it and bounds the command by --timeout.
func (a *app) calling(f handler) func(*cobra.Command, []string) error {
	return a.dialling(true, true, f)
}

// lasting is calling for a command that bounds itself.
func (a *app) lasting(f handler) func(*cobra.Command, []string) error {
	return a.dialling(true, false, f)
}

func (a *app) dialling(needsToken, bounded bool, f handler) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		where, err := a.search(needsToken).Find()
		if err != nil {
			return err
		}
		where.UserAgent = "sandboxctl/" + buildinfo.Version
		a.where = where
		ctx := cmd.Context()
		if bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(a.flags.timeout))
			defer cancel()
		}
		client, err := where.Dial(ctx)
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // the answer is here already
		return f(ctx, client, args)
	}
}

// pageSize is how much of a list is fetched at a time; a gateway may send less.
const pageSize = 500

// scope is the workspace that the command works in.
func (a *app) scope() *datamodelv1.WorkspaceSelector { return sandbox.Workspace(a.workspace()) }

func (a *app) workspace() string {
	if a.flags.workspace != "" {
		return a.flags.workspace
	}
	return a.env["SANDBOX_WORKSPACE"]
}

// listScope is scope, or every workspace.
func (a *app) listScope(cmd *cobra.Command, all bool) (*datamodelv1.WorkspaceSelector, error) {
	if !all {
		return a.scope(), nil
	}
	if a.flags.workspace != "" {
		return nil, usageIn(cmd, "--all-workspaces and --workspace exclude each other")
	}
	return sandbox.AllWorkspaces(), nil
}

// note writes a line for people to standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, clean(fmt.Sprintf(format, args...)))
}
