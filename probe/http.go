// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"time"
)

// HTTP makes attempts over the loopback.
type HTTP struct {
	userAgent string
}

// HTTPOption changes how an HTTP makes its attempts.
type HTTPOption func(*HTTP)

// NewHTTP returns an HTTP that sends userAgent, "sandbox-agent/<version>".
func NewHTTP(userAgent string, opts ...HTTPOption) *HTTP {
	h := &HTTP{userAgent: userAgent}
	for _, o := range opts {
		o(h)
	}
	return h
}

// Attempt probes t once.
func (h *HTTP) Attempt(_ context.Context, _ Target) Attempt {
	now := time.Now()
	return Attempt{Outcome: Inconclusive, Reason: Internal, Start: now, End: now}
}
