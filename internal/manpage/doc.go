// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package manpage renders a command with all its subcommands as one manual
// page. The page depends on nothing but the command: no date, no machine, so
// that a build can be repeated. Functions keep nothing and may be called from
// any goroutine, as long as nobody changes the command meanwhile.
package manpage
