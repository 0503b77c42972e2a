// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbox-gateway serves users and accepts the agents of sandboxes. This
// package holds flags, configuration, signals and exit codes; what the gateway
// does is in package gateway. See sandbox-gateway --help.
package main
