// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"os"
	"syscall"

	"github.com/sandbox-agent/sandbox-agent/internal/statedir"
)

// stateDirOf returns the state directory of a gateway that was told none: dir
// for root and for whoever owns it already (a service's user), otherwise a
// place of the user's own, where sandboxctl looks too.
func stateDirOf(dir string, euid int, env func(string) string) string {
	if euid == 0 {
		return dir
	}
	if info, err := os.Stat(dir); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) == euid {
			return dir
		}
	}
	return cmp.Or(statedir.OfUser(env), dir)
}
