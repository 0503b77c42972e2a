// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package faultkit breaks things on purpose, for tests on real processes:
// network namespaces with links that lose packets, a proxy that holds bytes
// back, control groups that freeze and starve, stopped processes, exhausted
// descriptors.
//
// Each fault is made by one call and undone by another, and in any case when
// the test ends, also when it fails. Nothing is left behind: namespaces and
// their links go with the last process in them, control groups are emptied and
// removed. Nothing that was there before is touched. Where the kernel lacks a
// feature, the test is skipped, and says which.
//
// All types are safe for concurrent use. Linux and root are needed.
package faultkit
