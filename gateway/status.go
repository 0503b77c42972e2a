// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"time"
)

// Alive reports whether the gateway's own loops make progress. It depends on
// nothing outside the process.
func (g *Gateway) Alive(now time.Time) bool { return g.checker.Alive(now) }

// Summary says in one line for people how the gateway is.
func (g *Gateway) Summary() string {
	n := g.cache.Counts()
	line := fmt.Sprintf("%s, %s observed; ", plural(n.Live, "session"), plural(n.Observations, "service"))
	switch {
	case g.checker.Draining():
		return line + "draining"
	case g.checker.Ready():
		return line + "ready"
	}
	return line + "not ready"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
