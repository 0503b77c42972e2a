// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package statedir

import "path/filepath"

// System is the directory of root and of the service.
const System = "/var/lib/sandbox-gateway"

// OfUser returns the directory of any other user, by the XDG base directory
// specification, or "" if the environment names none.
func OfUser(env func(name string) string) string {
	base := env("XDG_STATE_HOME")
	if home := env("HOME"); base == "" && home != "" {
		base = filepath.Join(home, ".local", "state")
	}
	if base == "" {
		return ""
	}
	return filepath.Join(base, filepath.Base(System))
}
