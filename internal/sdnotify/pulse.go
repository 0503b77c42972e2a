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
	// Failed is told of messages that could not be sent.
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
	last := ""
	for {
		var message []string
		if n.watchdog > 0 && p.Alive() {
			message = append(message, Watchdog)
		}
		if s := p.Status(); s != last {
			last = s
			message = append(message, "STATUS="+s)
		}
		if err := n.Notify(message...); err != nil {
			p.Failed(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
