// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package buildinfo

// Version is set by the linker: -X …/internal/buildinfo.Version=1.2.3.
var Version = "0.0.0-dev"
