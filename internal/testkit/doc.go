// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package testkit is what every test of this project shares: bubbles of fake
// time, the leak check, and a logger that fails the test on an unexpected
// error. Only tests import it.
//
// Main belongs to a package's TestMain and runs after all its tests. Bubble and
// Wait are for tests that are not parallel; everything else may be called from
// any goroutine of a test, and a logger may even outlive its test: what it is
// given then is recorded and printed nowhere.
package testkit
