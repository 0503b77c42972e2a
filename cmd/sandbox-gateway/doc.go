// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbox-gateway serves users and accepts agents; see its --help and
// docs/operations.md.
package main
