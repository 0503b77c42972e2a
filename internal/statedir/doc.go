// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package statedir says where a gateway that was told no state directory keeps
// its state, and where its clients look for it. Its functions depend on nothing
// but their arguments.
package statedir
