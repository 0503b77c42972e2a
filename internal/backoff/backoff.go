// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package backoff

import "time"

// Policy is an exponential backoff between Min and Max with full jitter in its
// upper half, also at the cap, so that a fleet that failed together does not
// come back together.
type Policy struct {
	Min    time.Duration // delay before the first repeat
	Max    time.Duration // cap
	Factor float64       // growth per repeat; at least 1
}

// Delay returns the delay before repeat n (0 is the first): the capped
// exponential, of which the upper half is scaled by chance in [0, 1).
func (p Policy) Delay(n int, chance float64) time.Duration {
	d := float64(p.Min)
	for range n {
		d *= p.Factor
		if d >= float64(p.Max) {
			break
		}
	}
	d = min(d, float64(p.Max))
	return time.Duration(d/2 + d/2*chance)
}
