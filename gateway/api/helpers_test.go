// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"log/slog"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// withField returns a copy of a message with a text field set.
func withField(m proto.Message, field protoreflect.Name, value string) proto.Message {
	m = proto.Clone(m)
	r := m.ProtoReflect()
	r.Set(r.Descriptor().Fields().ByName(field), protoreflect.ValueOfString(value))
	return m
}

func protoreflectMessage(m proto.Message) protoreflect.Value {
	return protoreflect.ValueOfMessage(m.ProtoReflect())
}

// printable is what may reach a terminal as it is.
func printable(r rune) bool { return unicode.IsPrint(r) }

// loggingServer returns a Server and what it has logged since.
func loggingServer() (*Server, func() string) {
	h := &recorder{}
	return New(Config{Logger: slog.New(h)}), func() string { return strings.Join(h.words, " ") }
}

// recorder keeps messages and the values of attributes.
type recorder struct {
	slog.Handler
	words []string
}

func (*recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.words = append(r.words, rec.Message)
	rec.Attrs(func(a slog.Attr) bool { r.words = append(r.words, a.Value.String()); return true })
	return nil
}
