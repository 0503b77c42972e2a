// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/agent"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/internal/settings"
)

// reloadable are the settings that take effect without a new start; services
// only where the agent works alone.
var reloadable = []string{"log-level", "service"}

// reloader reads the configuration of a running agent again.
type reloader struct {
	cmd     *cobra.Command // as the agent was started
	environ []string
	level   *slog.LevelVar
	logger  *slog.Logger
}

// reload reads the configuration and does what can be done with it now. A
// configuration with a fault changes nothing.
func (r *reloader) reload(a *agent.Agent) {
	fresh, next := &cobra.Command{}, options{}
	next.register(fresh)
	err := settings.Copy(fresh.Flags(), r.cmd.Flags())
	if err == nil {
		err = next.load(fresh, r.environ)
	}
	var level slog.Level
	if err == nil {
		level, err = obs.ParseLevel(next.logLevel)
	}
	later := slices.DeleteFunc(settings.Differences(r.cmd.Flags(), fresh.Flags()), func(name string) bool {
		return slices.Contains(reloadable, name)
	})
	if err == nil && next.agent.Gateway == "" && !slices.Contains(later, "gateway") {
		err = a.SetServices(next.agent.Services)
	}
	if err != nil {
		r.logger.Warn("the configuration was not reloaded", "error", err)
		return
	}
	r.level.Set(level)
	r.logger.Info("the configuration was reloaded")
	if len(later) > 0 {
		r.logger.Warn("settings that take effect at the next start have changed", "settings", later)
	}
}
