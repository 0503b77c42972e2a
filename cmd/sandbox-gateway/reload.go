// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/internal/settings"
)

// reloadable are the settings that take effect without a new start.
var reloadable = []string{"log-level"}

// reloader reads the configuration of a running gateway again.
type reloader struct {
	cmd     *cobra.Command // as the gateway was started
	environ []string
	level   *slog.LevelVar
	logger  *slog.Logger
}

// reload reads the configuration and does what can be done with it now. A
// configuration with a fault changes nothing.
func (r *reloader) reload() {
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
	if err != nil {
		r.logger.Warn("the configuration was not reloaded", "error", err)
		return
	}
	r.level.Set(level)
	r.logger.Info("the configuration was reloaded")
	later := slices.DeleteFunc(settings.Differences(r.cmd.Flags(), fresh.Flags()), func(name string) bool {
		return slices.Contains(reloadable, name)
	})
	if len(later) > 0 {
		r.logger.Warn("settings that take effect at the next start have changed", "settings", later)
	}
}
