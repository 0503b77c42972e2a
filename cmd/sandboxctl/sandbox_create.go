// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// creation is what the flags of "sandbox create" say.
type creation struct {
	expose    exposures
	readiness string
	check     bool // --expose-readiness-path was given, perhaps empty
	driver    choice
	labels    pairs
	env       pairs
	image     text
	wait      bool
}

func (a *app) sandboxCreate() *cobra.Command {
	in := creation{
		driver: choice{flag: "--driver", of: []string{"external", "local"}},
		labels: pairs{flag: "--label"},
		env:    pairs{flag: "--env", secret: true},
		image:  text{flag: "--image"},
	}
	cmd := command("create NAME [flags] [-- COMMAND [ARG...]]", "Create a sandbox and expose its services",
		`  sandboxctl sandbox create shop --driver external --expose 8080
  sandboxctl sandbox create web --driver local --expose 8080 -- python3 -m http.server 8080
  sandboxctl sandbox create api --driver local --expose 8080 --expose-readiness-path /readyz -- ./server
  sandboxctl sandbox create dev --driver local --wait -- sleep infinity
  sandboxctl sandbox create lab --expose 8888 --expose docs=8000 --label team=blue --env MODE=dev`)
	cmd.Long = `Create registers a sandbox. With --driver local the gateway boots it at once, with
COMMAND as its main process; that is for development and no security boundary.
With --driver external somebody else boots it, and the answer says where the
sandbox's token is and how to start the agent.

It does not wait: the phase is Provisioning until the agent has connected. With
--wait it ends when every exposed service is healthy, or the sandbox is ready if
none is exposed; the sandbox is kept if that fails.`
	cmd.Args = createArgs
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(&in.expose, "expose", "expose a loopback port as an HTTP service; repeat with NAME=PORT for more than one")
	f.StringVar(&in.readiness, "expose-readiness-path", "", "the one exposed service is ready when GET on this `PATH` answers 2xx")
	f.Var(&in.driver, "driver", "who boots the sandbox (default: the gateway's choice)")
	f.Var(&in.image, "image", "`IMAGE` to boot, for drivers that use one")
	f.Var(&in.labels, "label", "label to find the sandbox by; repeatable")
	f.Var(&in.env, "env", "variable in the environment of COMMAND; repeatable")
	limit := patience(0)
	f.BoolVar(&in.wait, "wait", false, "wait until the exposed services are healthy, or the sandbox is ready")
	f.Var(&limit, "timeout", "give up after this `TIME` (default 30s, with --wait 60s)")
	f.Lookup("timeout").DefValue = ""
	complete(cmd, "driver", in.driver.of)
	for _, name := range []string{"expose", "expose-readiness-path", "image", "label", "env"} {
		complete(cmd, name, nil)
	}
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		in.check = f.Changed("expose-readiness-path")
		return in.validate(cmd)
	}
	cmd.RunE = a.lasting(func(ctx context.Context, c *sandbox.Client, args []string) error {
		req := in.request(args[0], args[1:])
		req.WorkspaceScope = a.scope()
		begun := time.Now()
		resp, err := a.create(ctx, c, req, &limit)
		if err == nil {
			err = a.show(resp, func(p *page) { drawCreated(p, resp) })
		}
		if err != nil || !in.wait {
			return err
		}
		return a.waitSandbox(ctx, c, resp, max(time.Duration(limit)-time.Since(begun), 0))
	})
	return cmd
}

// create creates a sandbox within the time for that, and leaves in limit what
// there is for all.
func (a *app) create(ctx context.Context, c *sandbox.Client, req *openshellv1.CreateSandboxRequest, limit *patience) (*openshellv1.SandboxResponse, error) {
	if *limit == 0 {
		*limit = patience(waitTimeout)
	} else {
		a.flags.timeout = *limit
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.flags.timeout))
	defer cancel()
	return c.CreateSandbox(ctx, req)
}

// createArgs wants NAME alone, and whatever follows "--".
func createArgs(cmd *cobra.Command, args []string) error {
	before := len(args)
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		before = n
	}
	if before > 1 {
		return usageIn(cmd, "takes one NAME: %q is one too many (a command goes after --)", args[1])
	}
	return positional("NAME")(cmd, args[:before])
}

func (in *creation) validate(cmd *cobra.Command) error {
	if !in.check {
		return nil
	}
	switch n := len(in.expose.value); n {
	case 1:
		return nil
	case 0:
		return usageIn(cmd, "--expose-readiness-path needs --expose: there is no service that it could be about")
	default:
		return usageIn(cmd, "--expose-readiness-path is for one --expose, and there are %d: expose the others with `sandboxctl service expose --readiness-path`", n)
	}
}

func (in *creation) request(name string, command []string) *openshellv1.CreateSandboxRequest {
	req := &openshellv1.CreateSandboxRequest{
		Name:      name,
		RequestId: sandbox.NewRequestID(),
		Labels:    in.labels.value,
		Spec:      &openshellv1.SandboxSpec{Command: command, Environment: in.env.value},
	}
	if in.driver.value != "" {
		req.Annotations = map[string]string{driverAnnotation: in.driver.value}
	}
	if in.image.value != "" {
		req.Spec.Template = &openshellv1.SandboxTemplate{Image: in.image.value}
	}
	for _, service := range in.expose.names() {
		e := &openshellv1.SandboxServiceExposure{Service: service, TargetPort: in.expose.value[service]}
		if in.check {
			e.ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: in.readiness}
		}
		req.ServiceExposures = append(req.ServiceExposures, e)
	}
	return req
}

func drawCreated(p *page, resp *openshellv1.SandboxResponse) {
	drawChange(p, resp.GetSandbox(), "created")
	if urls := resp.GetServiceUrls(); len(urls) > 0 {
		var rows [][]cell
		for _, service := range slices.Sorted(maps.Keys(urls)) {
			rows = append(rows, []cell{val(service), val(urls[service])})
		}
		p.line("")
		p.table([]column{{"SERVICE", 0}, {"URL", 0}}, rows)
	}
	drawRuntime(p, resp.GetSandbox())
}
