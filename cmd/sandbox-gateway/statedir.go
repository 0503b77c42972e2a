// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"syscall"
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
	switch {
	case env("XDG_STATE_HOME") != "":
		return filepath.Join(env("XDG_STATE_HOME"), filepath.Base(dir))
	case env("HOME") != "":
		return filepath.Join(env("HOME"), ".local", "state", filepath.Base(dir))
	}
	return dir
}
