// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import "log/slog"

const redacted = "[redacted]"

// String is a credential. Every way of printing it prints "[redacted]".
type String struct{ value string }

// New wraps a credential.
func New(value string) String { return String{value} }

// Reveal returns the credential itself. Call it only where it is sent.
func (s String) Reveal() string { return s.value }

// IsZero reports whether there is no credential.
func (s String) IsZero() bool { return s.value == "" }

// String implements fmt.Stringer.
func (String) String() string { return redacted }

// GoString implements fmt.GoStringer, for %#v.
func (String) GoString() string { return redacted }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (String) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (String) LogValue() slog.Value { return slog.StringValue(redacted) }
