// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceOpen() *cobra.Command {
	var browser bool
	cmd := command("open SANDBOX [NAME] [flags]", "Print the URL of a service, or open it",
		`  sandboxctl service open web
  sandboxctl service open web docs --browser`, "SANDBOX", "[NAME]")
	cmd.Flags().BoolVar(&browser, "browser", false, "open the URL in a browser: $BROWSER, else that of the desktop")
	cmd.ValidArgsFunction = a.completeService
	cmd.RunE = a.calling(func(ctx context.Context, c *sandbox.Client, args []string) error {
		resp, err := c.GetService(ctx, &openshellv1.GetServiceRequest{Sandbox: args[0], Name: optional(args, 1), WorkspaceScope: a.scope()})
		if err != nil {
			return err
		}
		if err := a.show(resp, func(p *page) { p.line(resp.GetUrl()) }); err != nil {
			return err
		}
		if h := sandbox.HealthOf(resp); h.State != sandbox.HealthHealthy {
			words, _ := healthWords(h)
			a.note("(%s: %s)", words, h.Message)
		}
		if !browser {
			return nil
		}
		return a.browse(ctx, resp.GetUrl())
	})
	return cmd
}

// browse opens a URL of the gateway's in a browser, which goes on when the
// command has ended.
func (a *app) browse(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return &failure{err: fmt.Errorf("the gateway gave no URL that a browser can open: %q", address)}
	}
	opener := a.env["BROWSER"]
	switch {
	case opener != "":
	case runtime.GOOS == "darwin":
		opener = "open"
	default:
		opener = "xdg-open"
	}
	if err := a.launch(ctx, opener, u.String()); err != nil {
		return &failure{err: fmt.Errorf("the browser could not be opened with %s: %w", opener, err), next: "Set BROWSER to the command that opens a URL."}
	}
	return nil
}

// launchWatch is how long a program may take to fail. Some open the page and
// end, others are the browser.
const launchWatch = 2 * time.Second

// launch starts another program, and returns its error or, if it goes on, nil.
func launch(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	watch := time.NewTimer(launchWatch)
	defer watch.Stop()
	select {
	case err := <-ended:
		return err
	case <-watch.C:
	case <-ctx.Done():
	}
	return nil
}
