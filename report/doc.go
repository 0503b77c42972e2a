// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package report turns verdicts into reports: a Tracker folds what the
// scheduler observes into one Snapshot, and Publish sends the newest Snapshot
// over a session until that session ends.
//
// A report is the whole truth and level-triggered: nothing is queued, the
// newest snapshot replaces an unsent older one, at most one report is not
// acknowledged, and whatever was lost is repeated by the next report. Ages
// travel, timestamps do not. Each report names the last acknowledgement that
// had come before its oldest observation began, and how long ago on the
// agent's monotonic clock it came; from this the gateway derives, on its own
// clock alone, an instant that no observation is older than.
//
// A Tracker is safe for concurrent use. Publish runs in its caller's
// goroutine; one Tracker feeds one Publish at a time.
package report
