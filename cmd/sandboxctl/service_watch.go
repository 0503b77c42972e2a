// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceWatch() *cobra.Command {
	var all bool
	var limit patience
	selector := text{flag: "--selector"}
	var scope *datamodelv1.WorkspaceSelector
	cmd := command("watch [SANDBOX [NAME]] [flags]", "Follow services and their health",
		`  sandboxctl service watch
  sandboxctl service watch web
  sandboxctl service watch web docs -o json
  sandboxctl service watch --all-workspaces --selector team=blue`, "[SANDBOX]", "[NAME]")
	cmd.Long = `Watch shows services and their health until it is interrupted: on a terminal a
table that is kept up to date, elsewhere and with -o json one line of JSON for
each event (with -o yaml one document): "service" for one that is new or has
changed, "removed", "complete" once all have been told, "disconnected" and
"connected". It connects again by itself. A service is unknown, for the reason
WatchStale, once the gateway has not been heard for 15 seconds.

NAME is that of a service; without it every service of the sandbox is followed.`
	f := cmd.Flags()
	f.BoolVarP(&all, "all-workspaces", "A", false, "follow every workspace")
	f.VarP(&selector, "selector", "l", "services of sandboxes with these labels, `KEY=VALUE,...`")
	f.Var(&limit, "timeout", "end after this `TIME` (default: when it is interrupted)")
	f.Lookup("timeout").DefValue = ""
	complete(cmd, "selector", nil)
	cmd.ValidArgsFunction = a.completeService
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if all && len(args) > 0 {
			return usageIn(cmd, "--all-workspaces and SANDBOX exclude each other")
		}
		scope, err = a.listScope(cmd, all)
		return err
	}
	cmd.RunE = a.lasting(func(ctx context.Context, c *sandbox.Client, args []string) error {
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(limit))
			defer cancel()
		}
		if err := a.exists(ctx, c, args); err != nil {
			return err
		}
		req := &sandboxv1.WatchServicesRequest{WorkspaceScope: scope, Sandbox: optional(args, 0), LabelSelector: selector.value}
		if len(args) > 1 {
			req.Services = []string{args[1]}
		}
		w := c.WatchServices(ctx, req)
		defer w.Close()
		return follow(ctx, w, a.watchView(w, all))
	})
	return cmd
}

// exists is an error unless the sandbox, or the service, that was named exists:
// a watch would wait for it silently.
func (a *app) exists(ctx context.Context, c *sandbox.Client, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.flags.timeout))
	defer cancel()
	var err error
	switch len(args) {
	case 1:
		_, err = c.GetSandbox(ctx, &openshellv1.GetSandboxRequest{Name: args[0], WorkspaceScope: a.scope()})
	case 2:
		_, err = c.GetService(ctx, &openshellv1.GetServiceRequest{Sandbox: args[0], Name: args[1], WorkspaceScope: a.scope()})
	}
	return err
}

// watchView shows a watch.
type watchView interface {
	// update shows what is new.
	update(sandbox.ServiceUpdate) error
	// tick shows that a second has passed.
	tick() error
}

// watchView chooses how a watch is shown.
func (a *app) watchView(w *sandbox.ServiceWatch, all bool) watchView {
	if a.flags.output.value == formatTable && a.redraws(a.stdout) {
		return &watchTable{app: a, watch: w, all: all}
	}
	return &watchLines{app: a}
}

// told is one return of Next.
type told struct {
	update sandbox.ServiceUpdate
	err    error
}

// pump calls Next until ctx ends or the watch does.
func pump(ctx context.Context, w *sandbox.ServiceWatch) <-chan told {
	c := make(chan told)
	go func() {
		for {
			u, err := w.Next()
			select {
			case c <- told{u, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

// follow shows a watch until ctx ends, which is no error. A gateway that cannot
// be reached at first is one.
func follow(ctx context.Context, w *sandbox.ServiceWatch, view watchView) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := pump(ctx, w)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	connected := false
	for {
		var err error
		select {
		case t := <-updates:
			switch {
			case ctx.Err() != nil:
				return nil
			case t.err != nil:
				return t.err
			case !connected && t.update.Err != nil:
				return t.update.Err
			}
			connected = true
			err = view.update(t.update)
		case <-second.C:
			if connected {
				err = view.tick()
			}
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}
