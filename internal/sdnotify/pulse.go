// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sdnotify

import (
	"context"
	"time"
)

// statusInterval is how often a status is looked at.
const statusInterval = 5 * time.Second

// Pulse is what a daemon tells its service manager all the time.
type Pulse struct {
	// Alive reports whether the daemon's own loops make progress. It must not
	// ask anything outside the process: a watchdog that is tied to a dependency
	// turns one outage into many restarts.
	Alive func() bool
	// Status is one line for people.
	Status func() string
	// Failed is told that messages cannot be sent, once for as long as that
	// lasts.
	Failed func(error)
}

// Run sends WATCHDOG=1 as often as the service manager wants it, for as long
// as the daemon is alive, and STATUS= when it has changed, until ctx ends. It
// returns at once without a service manager.
func (n Notifier) Run(ctx context.Context, p Pulse) {
	if !n.Enabled() {
		return
	}
	interval := statusInterval
	if n.watchdog > 0 {
		interval = min(interval, n.Interval())
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	last, failing := "", false
	for {
		var message []string
		if n.watchdog > 0 && p.Alive() {
			message = append(message, Watchdog)
		}
		status := p.Status()
		if status != last {
			message = append(message, "STATUS="+status)
		}
		switch err := n.Notify(message...); {
		case err == nil:
			if len(message) > 0 {
				last, failing = status, false
			}
		case !failing:
			failing = true
			p.Failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
