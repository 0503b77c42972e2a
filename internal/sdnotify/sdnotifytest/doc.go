// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package sdnotifytest plays the service manager of a daemon under test. A
// Manager belongs to the goroutine of its test. It fails that test when it does
// not hear what the test waits for.
package sdnotifytest
