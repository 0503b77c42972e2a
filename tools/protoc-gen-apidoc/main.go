// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

const page = "api.md"

// part is a chapter of the page: packages that the same people read.
type part struct {
	title, text string
	packages    []string
}

const head = `# API reference

<!-- Made from api/ by tools/protoc-gen-apidoc; make generate. Edit the comments of the protos. -->

Every call, message and field, as the protos say it. [health.md](health.md) says what the answers mean, and [wire.md](wire.md)
how a session works.

- Calls are gRPC over TLS, with the admin token as ` + "`authorization: Bearer <token>`" + `. Both are in the gateway's state directory
  (` + "`ca.crt`, `admin.token`" + `). A wrong or missing token is Unauthenticated.
- Errors are gRPC status codes; each call names its own. InvalidArgument names the field, what is wrong with the value, and
  the rule. Unavailable: the gateway stops, or its store is locked; try again.
- A field that is not set has its zero value; *optional* ones, and messages, tell absent from zero. JSON is protobuf JSON:
  ` + "`lowerCamelCase`" + ` names, 64-bit numbers as strings, times as RFC 3339, durations as seconds with an ` + "`s`" + `.
- Fields and enum values are added, never changed. Ignore what you do not know; a health state that you do not know is UNKNOWN.
`

// parts lists all packages, those of one part in the order of reading.
func parts() []part {
	return []part{
		{
			"For clients", "What users, the CLI and the SDKs call, on the gateway's gRPC listener.",
			[]string{"openshell.v1", "openshell.datamodel.v1", "sandbox.v1"},
		},
		{
			"For agents", "The session between an agent and its gateway. No client calls it; it may change between minor versions.",
			[]string{"supervisor.v1"},
		},
	}
}

func main() {
	protogen.Options{}.Run(func(p *protogen.Plugin) error {
		p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		text, err := render(p.Files)
		if err != nil {
			return err
		}
		_, err = p.NewGeneratedFile(page, "").Write([]byte(text))
		return err
	})
}

// render returns the page about those files that are to be generated.
func render(files []*protogen.File) (string, error) {
	byPackage := map[string][]*protogen.File{}
	for _, f := range files {
		if f.Generate {
			name := string(f.Desc.Package())
			byPackage[name] = append(byPackage[name], f)
		}
	}
	r := &renderer{slugs: map[string]string{}, used: map[string]int{}}
	r.used["api-reference"] = 1
	var list []part
	for _, p := range parts() {
		r.slug(p.title, p.title)
		for _, name := range p.packages {
			if len(byPackage[name]) == 0 {
				return "", fmt.Errorf("package %s: there are no protos of it", name)
			}
			r.collect(name, byPackage[name])
		}
		list = append(list, p)
	}
	r.line("%s", head)
	r.contents(list, byPackage)
	for _, p := range list {
		r.line("## %s\n\n%s\n", p.title, p.text)
		for _, name := range p.packages {
			r.pkg(name, byPackage[name])
			delete(byPackage, name)
		}
	}
	for name := range byPackage {
		r.errs = append(r.errs, fmt.Errorf("package %s is in no part of the page", name))
	}
	return strings.TrimRight(r.out.String(), "\n") + "\n", errors.Join(r.errs...)
}
