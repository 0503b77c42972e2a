// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) gatewayStatus() *cobra.Command {
	cmd := command("status [flags]", "Say which gateway is found, and how it is",
		`  sandboxctl gateway status
  sandboxctl gateway status --output json`)
	cmd.Long = `Status asks the gateway how it is. It needs no token. The exit code is 0 when the
gateway is healthy or degraded and 1 when it is not, or does not answer.`
	cmd.RunE = a.dialling(false, true, func(ctx context.Context, c *sandbox.Client, _ []string) error {
		resp, err := c.Health(ctx)
		if err != nil {
			return err
		}
		if err := a.show(resp, func(p *page) { a.drawStatus(p, resp) }); err != nil {
			return err
		}
		switch resp.GetStatus() {
		case openshellv1.ServiceStatus_SERVICE_STATUS_HEALTHY, openshellv1.ServiceStatus_SERVICE_STATUS_DEGRADED:
			return nil
		}
		return &failure{
			err:  fmt.Errorf("the gateway at %s answers, but is not ready", a.where.Address),
			next: "Its /readyz?verbose, on the ops listener, names each check.",
		}
	})
	return cmd
}

func (a *app) drawStatus(p *page, resp *openshellv1.HealthResponse) {
	p.fields(
		field{"Gateway", val(a.where.Address)},
		field{"Named by", val(a.where.AddressFrom)},
		field{"Status", toned(statusWords(resp.GetStatus()))},
		field{"Version", val(resp.GetVersion())},
	)
}
