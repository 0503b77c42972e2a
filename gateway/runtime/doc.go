// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtime boots sandboxes, behind one small interface.
package runtime
