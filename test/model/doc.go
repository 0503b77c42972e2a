// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package model holds the health path to a reference that was written from the
// contract alone. The reference is dumb and slow on purpose: a list of what has
// happened, and loops over it for every question. It imports names from the
// product and no decision.
//
// The tests make random histories of a sandbox (test/rig), ask the product and
// the reference at every read, and on a difference shorten the history to what
// is needed for it and print it. A seed names a history for ever, as long as
// the generator stays as it is. MODEL_SEQUENCES says how many histories are
// tried, MODEL_SEED where to begin.
package model
