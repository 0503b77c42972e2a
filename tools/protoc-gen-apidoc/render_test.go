// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// shop is a package with one of everything. COMMENT stands for the comment of
// the field "old".
const shop = `
name: "%.proto" package: "%" syntax: "proto3" options { go_package: "example.com/a" }
service { name: "Shop" method { name: "Buy" input_type: ".%.Thing" output_type: ".%.Thing" server_streaming: true } }
message_type {
  name: "Thing"
  field { name: "old" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "old" }
  field { name: "things" number: 1 type: TYPE_MESSAGE type_name: ".%.Thing" label: LABEL_REPEATED json_name: "things" }
  enum_type { name: "Shop" value { name: "Z" number: 0 } }
}
source_code_info {
  location { path: [2] span: [0,0,0] leading_comments: " The shop.\n\n As docs/health.md says." }
  location { path: [6,0] span: [0,0,0] leading_comments: " Shop sells." }
  location { path: [6,0,2,0] span: [0,0,0] leading_comments: " Buy buys." }
  location { path: [4,0] span: [0,0,0] leading_comments: " A thing." }
  location { path: [4,0,2,0] span: [0,0,0] leading_comments: "COMMENT" }
  location { path: [4,0,2,1] span: [0,0,0] trailing_comments: " Beside\n it." }
  location { path: [4,0,4,0] span: [0,0,0] leading_comments: " Where." }
  location { path: [4,0,4,0,2,0] span: [0,0,0] leading_comments: " Zero." }
}`

func reference(t *testing.T, comment string, packages ...string) (string, error) {
	t.Helper()
	req := &pluginpb.CodeGeneratorRequest{}
	for _, name := range packages {
		f := &descriptorpb.FileDescriptorProto{}
		if err := prototext.Unmarshal([]byte(strings.NewReplacer("%", name, "COMMENT", comment).Replace(shop)), f); err != nil {
			t.Fatal(err)
		}
		req.ProtoFile = append(req.ProtoFile, f)
		req.FileToGenerate = append(req.FileToGenerate, f.GetName())
	}
	p, err := protogen.Options{}.New(req)
	if err != nil {
		t.Fatal(err)
	}
	return render(p.Files)
}

func all() (list []string) {
	for _, p := range parts() {
		list = append(list, p.packages...)
	}
	return list
}

// The same names in two packages get two anchors, and nothing of a comment is
// taken for Markdown.
func TestPage(t *testing.T) {
	text, err := reference(t, ` Neither <b> nor a|b.\n\n And *more*. `, all()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"    - [Shop](#shop): [Buy](#shopbuy)\n",
		"    - [Shop](#shop-1): [Buy](#shopbuy-1)\n",
		"### openshell.v1\n\nThe shop.\n\nAs [health.md](health.md) says.\n\n#### Shop\n",
		"Service `openshell.v1.Shop`. Shop sells.\n\n##### Shop.Buy\n\nBuy([Thing](#thing)) returns (stream [Thing](#thing))\n\nBuy buys.\n",
		"| 3 | `old` | string | Neither \\<b> nor a\\|b. And \\*more\\*. |\n| 1 | `things` | repeated [Thing](#thing) | Beside it. |\n",
		"#### Thing.Shop\n\nWhere.\n\n| # | value | |\n|---|---|---|\n| 0 | `Z` | Zero. |\n",
		"repeated [Thing](#thing-3)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not in the page: %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestFaults(t *testing.T) {
	for want, packages := range map[string][]string{
		"openshell.v1.Thing.old has no comment":         all(),
		"package other.v1 is in no part of the page":    append(all(), "other.v1"),
		"package sandbox.v1: there are no protos of it": {"openshell.v1", "openshell.datamodel.v1"},
	} {
		if _, err := reference(t, "", packages...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
