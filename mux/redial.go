// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/backoff"
)

const (
	maxRetryAfter = time.Minute
	settled       = 10 * time.Second // a session that lasted this long was a success
)

// Redial decides how long an agent waits before it dials again. It is pure: the
// caller waits and brings the chance. The zero value is ready. It never gives
// up, whatever the error.
type Redial struct{ failures int }

// Failed returns the delay before the next attempt, after a Dial that failed or
// a session that ended with err: 0.25 s doubling to 15 s, of which the upper
// half is left to chance (in [0, 1)), also at the cap. If the gateway asked for
// more with Retry-After, the delay is that (at most 60 s) and up to half of it
// on top, so that a fleet that was refused together does not return together.
func (r *Redial) Failed(err error, chance float64) time.Duration {
	p := backoff.Policy{Min: 250 * time.Millisecond, Max: 15 * time.Second, Factor: 2}
	d := p.Delay(r.failures, chance)
	if r.failures < 1<<10 {
		r.failures++
	}
	var refused *RefusedError
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		asked := min(refused.RetryAfter, maxRetryAfter)
		d = max(d, asked+time.Duration(float64(asked)/2*chance))
	}
	return d
}

// Connected is told how long a session lasted, before Failed is asked for the
// delay after it. From 10 s on the backoff starts anew; a shorter session
// counts for nothing, or two agents with one identity would evict each other
// four times a second.
func (r *Redial) Connected(lasted time.Duration) {
	if lasted >= settled {
		r.failures = 0
	}
}
