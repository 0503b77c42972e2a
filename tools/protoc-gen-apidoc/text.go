// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var notInSlug = regexp.MustCompile(`[^a-z0-9 _-]`)

// slug gives a heading its anchor, as GitHub makes it: the second heading with
// the same text ends in -1.
func (r *renderer) slug(name, heading string) {
	s := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
	n := r.used[s]
	r.used[s]++
	if n > 0 {
		s = fmt.Sprintf("%s-%d", s, n)
	}
	r.slugs[name] = s
}

func (r *renderer) link(d protoreflect.Descriptor, text string) string {
	return fmt.Sprintf("[%s](#%s)", text, r.slugs[string(d.FullName())])
}

// comment returns what stands above a declaration, or else beside it.
func (r *renderer) comment(d protoreflect.Descriptor, c protogen.CommentSet) string {
	text := paragraphs(c.Leading)
	if text == "" {
		text = paragraphs(c.Trailing)
	}
	if text == "" {
		r.errs = append(r.errs, fmt.Errorf("%s: %s has no comment: what is it, in which unit, and when is it absent?", d.ParentFile().Path(), d.FullName()))
	}
	return text
}

// packageComment returns the comment above the package clause.
func packageComment(f *protogen.File) string {
	const packageField = 2 // of FileDescriptorProto
	loc := f.Desc.SourceLocations().ByPath(protoreflect.SourcePath{packageField})
	return paragraphs(protogen.Comments(loc.LeadingComments))
}

var (
	// special has a meaning in Markdown that no comment means.
	special = regexp.MustCompile("[<*|`\\\\]")
	docPage = regexp.MustCompile(`\bdocs/([a-z]+\.md)\b`)
)

// paragraphs makes Markdown of a comment: lines are joined, paragraphs stay.
func paragraphs(c protogen.Comments) string {
	var out []string
	for p := range strings.SplitSeq(strings.TrimSpace(string(c)), "\n\n") {
		text := special.ReplaceAllString(strings.Join(strings.Fields(p), " "), `\$0`)
		out = append(out, docPage.ReplaceAllString(text, "[$1]($1)"))
	}
	return strings.Join(out, "\n\n")
}

// cell is a comment as one cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "\n\n", " ") }
