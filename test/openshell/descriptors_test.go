// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package openshell

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// comparison is what our descriptors have and the published ones have not, and
// the other way round, each in the order of the files.
type comparison struct {
	faults           []string // what breaks clients
	added            []string // messages, enums, fields and values of ours
	addedCalls       []string
	left             []string // fields and values of shared messages and enums
	served, unserved []string // published calls
}

// published reads the descriptors of the package.
func published(t *testing.T, python string) *protoregistry.Files {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(run(t, python, t.TempDir(), "descriptors"), set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// compare holds our descriptors against the published ones.
func compare(theirs *protoregistry.Files) *comparison {
	c := &comparison{}
	for _, ours := range []protoreflect.FileDescriptor{datamodelv1.File_openshell_datamodel_v1_datamodel_proto, openshellv1.File_openshell_v1_openshell_proto} {
		for i := range ours.Messages().Len() {
			m := ours.Messages().Get(i)
			if d, err := theirs.FindDescriptorByName(m.FullName()); err != nil {
				c.added = append(c.added, fmt.Sprintf("message `%s`", m.Name()))
			} else {
				c.message(m, d.(protoreflect.MessageDescriptor))
			}
		}
		for i := range ours.Enums().Len() {
			e := ours.Enums().Get(i)
			if d, err := theirs.FindDescriptorByName(e.FullName()); err != nil {
				c.added = append(c.added, fmt.Sprintf("enum `%s`", e.Name()))
			} else {
				c.enum(e, d.(protoreflect.EnumDescriptor))
			}
		}
		for i := range ours.Services().Len() {
			s := ours.Services().Get(i)
			d, err := theirs.FindDescriptorByName(s.FullName())
			if err != nil {
				c.fault("service %s is not published", s.FullName())
				continue
			}
			c.service(s, d.(protoreflect.ServiceDescriptor))
		}
	}
	return c
}

func (c *comparison) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (c *comparison) message(ours, theirs protoreflect.MessageDescriptor) {
	for i := range ours.Fields().Len() {
		f := ours.Fields().Get(i)
		other := theirs.Fields().ByName(f.Name())
		switch {
		case other == nil && theirs.Fields().ByNumber(f.Number()) != nil:
			c.fault("%s: %d is %s", f.FullName(), f.Number(), theirs.Fields().ByNumber(f.Number()).Name())
		case other == nil && (theirs.ReservedRanges().Has(f.Number()) || theirs.ReservedNames().Has(f.Name())):
			c.fault("%s = %d is reserved", f.FullName(), f.Number())
		case other == nil:
			c.added = append(c.added, fmt.Sprintf("`%s.%s` = %d", ours.Name(), f.Name(), f.Number()))
		case shape(f) != shape(other):
			c.fault("%s is %s, published as %s", f.FullName(), shape(f), shape(other))
		}
	}
	var missing []string
	for i := range theirs.Fields().Len() {
		f := theirs.Fields().Get(i)
		if ours.Fields().ByName(f.Name()) == nil {
			missing = append(missing, fmt.Sprintf("`%s`", f.Name()))
		}
	}
	if len(missing) > 0 {
		c.left = append(c.left, fmt.Sprintf("| `%s` | %s |", ours.Name(), strings.Join(missing, ", ")))
	}
}

// shape is all of a field that its bytes and its JSON depend on.
func shape(f protoreflect.FieldDescriptor) string {
	of := f.Kind().String()
	switch {
	case f.IsMap():
		of = shape(f.MapKey()) + " to " + shape(f.MapValue())
	case f.Message() != nil:
		of = string(f.Message().FullName())
	case f.Enum() != nil:
		of = string(f.Enum().FullName())
	}
	oneof := ""
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		oneof = " of " + string(o.Name())
	}
	return fmt.Sprintf("%d %s %s presence=%t packed=%t json=%s%s", f.Number(), f.Cardinality(), of, f.HasPresence(), f.IsPacked(), f.JSONName(), oneof)
}

func (c *comparison) enum(ours, theirs protoreflect.EnumDescriptor) {
	for i := range ours.Values().Len() {
		v := ours.Values().Get(i)
		if other := theirs.Values().ByName(v.Name()); other == nil {
			c.fault("%s = %d is not published", v.Name(), v.Number())
		} else if other.Number() != v.Number() {
			c.fault("%s = %d is published as %d", v.Name(), v.Number(), other.Number())
		}
	}
	var missing []string
	for i := range theirs.Values().Len() {
		if v := theirs.Values().Get(i); ours.Values().ByName(v.Name()) == nil {
			missing = append(missing, fmt.Sprintf("`%s`", v.Name()))
		}
	}
	if len(missing) > 0 {
		c.left = append(c.left, fmt.Sprintf("| `%s` | %s |", ours.Name(), strings.Join(missing, ", ")))
	}
}

func (c *comparison) service(ours, theirs protoreflect.ServiceDescriptor) {
	call := func(m protoreflect.MethodDescriptor) string {
		return fmt.Sprintf("%s(%t %s) %t %s", m.Name(), m.IsStreamingClient(), m.Input().FullName(), m.IsStreamingServer(), m.Output().FullName())
	}
	for i := range ours.Methods().Len() {
		m := ours.Methods().Get(i)
		if other := theirs.Methods().ByName(m.Name()); other == nil {
			c.addedCalls = append(c.addedCalls, string(m.Name()))
		} else if call(m) != call(other) {
			c.fault("%s is published as %s", call(m), call(other))
		}
	}
	for i := range theirs.Methods().Len() {
		if name := theirs.Methods().Get(i).Name(); ours.Methods().ByName(name) != nil {
			c.served = append(c.served, string(name))
		} else {
			c.unserved = append(c.unserved, string(name))
		}
	}
}

// Whatever this API shares with the published one has its names, numbers and
// types; what it adds takes numbers that are free there.
func TestDescriptors(t *testing.T) {
	c := compare(published(t, interpreter(t)))
	for _, f := range c.faults {
		t.Error(f)
	}
	if len(c.addedCalls) > 0 {
		t.Errorf("calls that are not published belong into a service of their own: %v", c.addedCalls)
	}
	for _, want := range []string{"`ServiceEndpointResponse.health` = 3", "message `ServiceHealth`"} {
		if !slices.Contains(c.added, want) {
			t.Errorf("%s is not among what is added: %v", want, c.added)
		}
	}
	if len(c.served) < 15 || len(c.unserved) < 50 {
		t.Errorf("%d calls served, %d not: too few to be the published service", len(c.served), len(c.unserved))
	}
}
