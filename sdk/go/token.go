// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

const redacted = "[redacted]"

// Token is a bearer token. Every way of printing it prints "[redacted]";
// string(t) is the token itself.
type Token string

// String implements fmt.Stringer.
func (Token) String() string { return redacted }

// GoString implements fmt.GoStringer, for %#v.
func (Token) GoString() string { return redacted }

// Format implements fmt.Formatter, so that no verb shows the token.
func (Token) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Token) LogValue() slog.Value { return slog.StringValue(redacted) }

var errTokenCharacters = errors.New("holds a character that no token has (space, control or not ASCII)")

// check says whether the token can travel in a header. It does not show the
// token, nor the character.
func (t Token) check() error {
	if strings.ContainsFunc(string(t), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errTokenCharacters
	}
	return nil
}
