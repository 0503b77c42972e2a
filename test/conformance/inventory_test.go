// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// publicFiles are the descriptors of the public API. supervisor.v1 is between
// our own two ends and is not part of it.
func publicFiles() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{
		datamodelv1.File_openshell_datamodel_v1_datamodel_proto,
		openshellv1.File_openshell_v1_openshell_proto,
		sandboxv1.File_sandbox_v1_watch_proto,
	}
}

// TestInventory holds the wire to a list that is read in reviews.
func TestInventory(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The public API: calls, messages, fields with numbers and types, enums. Clients\n" +
		"# depend on every line. Made by: go test ./test/conformance -run Inventory -update\n")
	for _, f := range publicFiles() {
		fmt.Fprintf(&b, "\npackage %s\n", f.Package())
		inventory(&b, f)
	}
	golden(t, "api/inventory.txt", []byte(b.String()))
}

func inventory(b *strings.Builder, f protoreflect.FileDescriptor) {
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		fmt.Fprintf(b, "\nservice %s\n", s.Name())
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			fmt.Fprintf(b, "  %s(%s%s) %s%s\n", m.Name(), stream(m.IsStreamingClient()), m.Input().FullName(), stream(m.IsStreamingServer()), m.Output().FullName())
		}
	}
	for i := range f.Messages().Len() {
		message(b, f.Messages().Get(i))
	}
	for i := range f.Enums().Len() {
		enum(b, f.Enums().Get(i))
	}
}

func stream(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

func message(b *strings.Builder, m protoreflect.MessageDescriptor) {
	if m.IsMapEntry() {
		return
	}
	fmt.Fprintf(b, "\nmessage %s\n", m.FullName())
	for i := range m.ReservedRanges().Len() {
		r := m.ReservedRanges().Get(i)
		fmt.Fprintf(b, "  reserved %d..%d\n", r[0], r[1]-1)
	}
	fields := make([]protoreflect.FieldDescriptor, m.Fields().Len())
	for i := range fields {
		fields[i] = m.Fields().Get(i)
	}
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number() - b.Number()) })
	for _, f := range fields {
		fmt.Fprintf(b, "  %d %s %s%s\n", f.Number(), f.Name(), fieldType(f), oneof(f))
	}
	for i := range m.Messages().Len() {
		message(b, m.Messages().Get(i))
	}
	for i := range m.Enums().Len() {
		enum(b, m.Enums().Get(i))
	}
}

func fieldType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "map<" + fieldType(f.MapKey()) + ", " + fieldType(f.MapValue()) + ">"
	case f.IsList():
		return "repeated " + single(f)
	case f.HasOptionalKeyword():
		return "optional " + single(f)
	}
	return single(f)
}

func single(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return string(f.Message().FullName())
	case f.Enum() != nil:
		return string(f.Enum().FullName())
	}
	return f.Kind().String()
}

func oneof(f protoreflect.FieldDescriptor) string {
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		return " oneof " + string(o.Name())
	}
	return ""
}

func enum(b *strings.Builder, e protoreflect.EnumDescriptor) {
	fmt.Fprintf(b, "\nenum %s\n", e.FullName())
	for i := range e.Values().Len() {
		fmt.Fprintf(b, "  %d %s\n", e.Values().Get(i).Number(), e.Values().Get(i).Name())
	}
}
