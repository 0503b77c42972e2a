// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbox-agent runs inside a sandbox and observes its HTTP services.
// This package holds flags, configuration, signals and exit codes; what the
// agent does is in package agent. See sandbox-agent --help.
package main
