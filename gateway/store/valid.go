// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// valid reports, as ErrInvalid, what one of the engines cannot hold. What the
// values mean is the caller's business.
func (s Sandbox) valid() error {
	texts := []any{
		"id", s.ID, "workspace", s.Workspace, "name", s.Name, "labels", s.Labels, "annotations", s.Annotations,
		"driver", s.Driver, "log_level", s.LogLevel, "image", s.Image, "environment", s.Environment,
		"command", s.Command, "lifecycle", string(s.Lifecycle), "instance", s.Instance,
	}
	if err := validTexts(texts...); err != nil {
		return err
	}
	if s.Generation > math.MaxInt64 {
		return fmt.Errorf("%w: generation: %d is larger than 63 bits", ErrInvalid, s.Generation)
	}
	return nil
}

func (s Service) valid() error {
	return validTexts("id", s.ID, "sandbox_id", s.SandboxID, "name", s.Name, "path", s.Path,
		"labels", s.Labels, "annotations", s.Annotations)
}

// validTexts checks pairs of a field's name and its value: a string, a list or
// a map. Errors do not show the value, which may be a secret of the sandbox.
func validTexts(pairs ...any) error {
	for i := 0; i < len(pairs); i += 2 {
		ok := true
		switch v := pairs[i+1].(type) {
		case string:
			ok = validText(v)
		case []string:
			for _, s := range v {
				ok = ok && validText(s)
			}
		case map[string]string:
			for k, s := range v {
				ok = ok && validText(k) && validText(s)
			}
		default:
			panic(fmt.Sprintf("validTexts: %v has type %T", pairs[i], v))
		}
		if !ok {
			return fmt.Errorf("%w: %v: text must be UTF-8 without NUL", ErrInvalid, pairs[i])
		}
	}
	return nil
}

func validText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
