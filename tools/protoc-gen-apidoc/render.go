// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// renderer writes the page. slugs has the anchor of each thing that a heading
// names, by its full name.
type renderer struct {
	out   strings.Builder
	slugs map[string]string
	used  map[string]int
	errs  []error
}

func (r *renderer) line(format string, args ...any) { fmt.Fprintf(&r.out, format+"\n", args...) }

// collect names the headings of a package in the order in which they come.
func (r *renderer) collect(name string, files []*protogen.File) {
	r.slug(name, name)
	for _, f := range files {
		for _, s := range f.Services {
			r.slug(string(s.Desc.FullName()), s.GoName)
			for _, m := range s.Methods {
				r.slug(string(m.Desc.FullName()), s.GoName+"."+m.GoName)
			}
		}
	}
	each(files, func(m *protogen.Message) { r.slug(string(m.Desc.FullName()), local(m.Desc)) },
		func(e *protogen.Enum) { r.slug(string(e.Desc.FullName()), local(e.Desc)) })
}

// each visits the messages and enums of a package, nested ones behind the one
// that holds them.
func each(files []*protogen.File, message func(*protogen.Message), enum func(*protogen.Enum)) {
	var visit func([]*protogen.Message, []*protogen.Enum)
	visit = func(messages []*protogen.Message, enums []*protogen.Enum) {
		for _, m := range messages {
			if m.Desc.IsMapEntry() {
				continue
			}
			message(m)
			visit(m.Messages, m.Enums)
		}
		for _, e := range enums {
			enum(e)
		}
	}
	for _, f := range files {
		visit(f.Messages, f.Enums)
	}
}

// local is a name without its package: Message, or Message.Nested.
func local(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
}

func (r *renderer) contents(list []part, files map[string][]*protogen.File) {
	for _, p := range list {
		r.line("- [%s](#%s)", p.title, r.slugs[p.title])
		for _, name := range p.packages {
			r.line("  - [%s](#%s)", name, r.slugs[name])
			for _, f := range files[name] {
				for _, s := range f.Services {
					var calls []string
					for _, m := range s.Methods {
						calls = append(calls, r.link(m.Desc, m.GoName))
					}
					r.line("    - %s: %s", r.link(s.Desc, s.GoName), strings.Join(calls, ", "))
				}
			}
		}
	}
	r.line("")
}

func (r *renderer) pkg(name string, files []*protogen.File) {
	r.line("### %s\n", name)
	said := false
	for _, f := range files {
		if text := packageComment(f); text != "" {
			r.line("%s\n", text)
			said = true
		}
	}
	if !said {
		r.errs = append(r.errs, fmt.Errorf("package %s has no comment", name))
	}
	for _, f := range files {
		for _, s := range f.Services {
			r.service(s)
		}
	}
	each(files, r.message, r.enum)
}

func (r *renderer) service(s *protogen.Service) {
	r.line("#### %s\n\nService `%s`. %s\n", s.GoName, s.Desc.FullName(), r.comment(s.Desc, s.Comments))
	for _, m := range s.Methods {
		r.line("##### %s.%s\n", s.GoName, m.GoName)
		r.line("%s(%s%s) returns (%s%s)\n", m.GoName, stream(m.Desc.IsStreamingClient()), r.link(m.Input.Desc, local(m.Input.Desc)),
			stream(m.Desc.IsStreamingServer()), r.link(m.Output.Desc, local(m.Output.Desc)))
		r.line("%s\n", r.comment(m.Desc, m.Comments))
	}
}

func stream(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

func (r *renderer) message(m *protogen.Message) {
	r.line("#### %s\n\n%s\n", local(m.Desc), r.comment(m.Desc, m.Comments))
	if len(m.Fields) == 0 {
		return
	}
	r.line("| # | field | type | |\n|---|---|---|---|")
	for _, f := range m.Fields {
		text := cell(r.comment(f.Desc, f.Comments))
		if f.Oneof != nil && !f.Oneof.Desc.IsSynthetic() {
			text = fmt.Sprintf("One of `%s`. %s", f.Oneof.Desc.Name(), text)
		}
		r.line("| %d | `%s` | %s | %s |", f.Desc.Number(), f.Desc.Name(), r.fieldType(f.Desc), text)
	}
	r.line("")
}

func (r *renderer) enum(e *protogen.Enum) {
	r.line("#### %s\n\n%s\n", local(e.Desc), r.comment(e.Desc, e.Comments))
	r.line("| # | value | |\n|---|---|---|")
	for _, v := range e.Values {
		r.line("| %d | `%s` | %s |", v.Desc.Number(), v.Desc.Name(), cell(r.comment(v.Desc, v.Comments)))
	}
	r.line("")
}

func (r *renderer) fieldType(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return fmt.Sprintf("map of %s to %s", r.single(f.MapKey()), r.single(f.MapValue()))
	case f.IsList():
		return "repeated " + r.single(f)
	case f.HasOptionalKeyword():
		return "optional " + r.single(f)
	}
	return r.single(f)
}

func (r *renderer) single(f protoreflect.FieldDescriptor) string {
	var d protoreflect.Descriptor
	switch {
	case f.Message() != nil:
		d = f.Message()
	case f.Enum() != nil:
		d = f.Enum()
	default:
		return f.Kind().String()
	}
	if _, ours := r.slugs[string(d.FullName())]; !ours {
		return string(d.FullName())
	}
	return r.link(d, local(d))
}
