// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package supervisorv1 is the generated code of the session between an agent and
// its gateway; docs/wire.md explains it. Edit supervisor.proto and run make
// generate.
package supervisorv1
