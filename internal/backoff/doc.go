// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package backoff computes jittered exponential delays. It is pure: the caller
// waits, the caller owns the clock and the source of chance.
//
// A Policy is a plain value: copy it, share it, use it from any goroutine. It
// remembers nothing, so the caller also owns the count of repeats and says
// when it goes back to zero.
package backoff
