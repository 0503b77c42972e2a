// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
)

// maxPath is the longest path of a readiness check, in bytes.
const maxPath = 1024

// Target is what an attempt asks.
type Target struct {
	// Port on the loopback, 1..65535.
	Port uint16
	// Path of a readiness check, which passes on 200..299. Empty means that the
	// target has none: GET / passes on any final status.
	Path string
}

// Validate returns an error that names the field and the rule that t breaks.
func (t Target) Validate() error {
	if t.Port == 0 {
		return errors.New("port 0: a port is 1..65535")
	}
	return ValidatePath(t.Path)
}

// ValidatePath returns an error that names the rule that path breaks, or nil.
// The empty path is valid; what it means is up to the caller.
//
// A path is what stands in the request line, so it is printable ASCII:
// everything else has to be percent-encoded. Encoded bytes are not looked at,
// they travel as they are.
func ValidatePath(path string) error {
	if path == "" {
		return nil
	}
	if len(path) > maxPath {
		return fmt.Errorf("path of %d bytes: a path has at most %d", len(path), maxPath)
	}
	if path[0] != '/' {
		return fmt.Errorf("path begins with %q: a path begins with \"/\" and names no scheme or host", path[:1])
	}
	if len(path) > 1 && (path[1] == '/' || path[1] == '\\') {
		return fmt.Errorf("path begins with %q: what follows would name another host", path[:2])
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '?':
			return fmt.Errorf("path has \"?\" at byte %d: a path has no query", i)
		case c == '#':
			return fmt.Errorf("path has \"#\" at byte %d: a path has no fragment", i)
		case c <= ' ' || c == 0x7f:
			return fmt.Errorf("path has byte 0x%02x at byte %d: a path has no white space and no control characters", c, i)
		case c > 0x7f:
			return fmt.Errorf("path has byte 0x%02x at byte %d: a path is ASCII, percent-encode the rest", c, i)
		}
	}
	return nil
}
