// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// What a line asks of the gateway, in the text form of the request, its random
// id apart.
func TestRequests(t *testing.T) {
	for line, want := range map[string]string{
		"sandbox create shop": `spec:{} name:"shop"`,
		"sandbox create shop -w blue --driver local --image base --label a=1 --label b=x=y --env K= --env L=v -- sh -c --expose": `
			spec:{environment:{key:"K" value:""} environment:{key:"L" value:"v"} template:{image:"base"} command:"sh" command:"-c" command:"--expose"}
			name:"shop" labels:{key:"a" value:"1"} labels:{key:"b" value:"x=y"}
			annotations:{key:"sandbox-agent.dev/driver" value:"local"} workspace_scope:{workspace:"blue"}`,
		"sandbox create shop --expose b=81 --expose a=82 --expose 80": `
			spec:{} name:"shop" service_exposures:{target_port:80} service_exposures:{service:"a" target_port:82} service_exposures:{service:"b" target_port:81}`,
		"sandbox create shop --expose a=80 --expose-readiness-path /r": `
			spec:{} name:"shop" service_exposures:{service:"a" target_port:80 readiness_check:{path:"/r"}}`,
		"sandbox create shop --expose 80 --expose-readiness-path=": `
			spec:{} name:"shop" service_exposures:{target_port:80 readiness_check:{}}`,
		"sandbox get web -w blue":                      `name:"web" workspace_scope:{workspace:"blue"}`,
		"sandbox list":                                 `page_size:500`,
		"sandbox list -A -l a=1,b=2":                   `page_size:500 label_selector:"a=1,b=2" workspace_scope:{all_workspaces:{}}`,
		"sandbox stop web":                             `name:"web"`,
		"sandbox start web":                            `name:"web"`,
		"sandbox delete web":                           `name:"web"`,
		"sandbox delete web --allow-missing":           `name:"web" allow_missing:true`,
		"service expose web 80":                        `sandbox:"web" target_port:80`,
		"service expose web 80 docs --readiness-path=": `sandbox:"web" name:"docs" target_port:80 readiness_check:{}`,
		"service expose web 80 --readiness-path /r":    `sandbox:"web" target_port:80 readiness_check:{path:"/r"}`,
		"service get web":                              `sandbox:"web"`,
		"service get web docs -w blue":                 `sandbox:"web" name:"docs" workspace_scope:{workspace:"blue"}`,
		"service list web":                             `sandbox:"web" page_size:500`,
		"service list -A":                              `page_size:500 workspace_scope:{all_workspaces:{}}`,
		"service delete web docs --allow-missing":      `sandbox:"web" name:"docs" allow_missing:true`,
		"gateway status":                               ``,
	} {
		t.Run(line, func(t *testing.T) {
			f := newFixture(t)
			f.fill()
			f.run(t, strings.Fields(line)...)
			asked := f.Requests()
			if len(asked) == 0 {
				t.Fatal("nothing was asked")
			}
			got := asked[0]
			expected := got.ProtoReflect().New().Interface()
			if err := prototext.Unmarshal([]byte(want), expected); err != nil {
				t.Fatal(err)
			}
			id := requestID(got)
			if mutation := got.ProtoReflect().Descriptor().Fields().ByName("request_id") != nil; mutation != (len(id) == 36) {
				t.Errorf("request id %q", id)
			}
			if !proto.Equal(got, expected) {
				t.Errorf("got  %T %v\nwant %v", got, got, expected)
			}
		})
	}
}

// requestID takes the request id out of a request.
func requestID(m proto.Message) string {
	r := m.ProtoReflect()
	field := r.Descriptor().Fields().ByName(protoreflect.Name("request_id"))
	if field == nil {
		return ""
	}
	id := r.Get(field).String()
	r.Clear(field)
	return id
}

// Two runs are two requests.
func TestRequestIDsDiffer(t *testing.T) {
	f := newFixture(t)
	f.fill()
	f.run(t, "sandbox", "stop", "web")
	f.run(t, "sandbox", "stop", "web")
	asked := f.Requests()
	if len(asked) != 2 || requestID(asked[0]) == requestID(asked[1]) {
		t.Errorf("requests: %v", asked)
	}
}

// A list is read to its end: the fake sends two entries a page.
func TestListsReadEveryPage(t *testing.T) {
	f := newFixture(t)
	f.fill()
	if got := f.run(t, "service", "list", "-A", "-o", "json"); strings.Count(got.out, `"endpoint"`) != 8 {
		t.Errorf("not all of the eight services:\n%s", got.out)
	}
	pages := 0
	for _, r := range f.Requests() {
		if _, ok := r.(*openshellv1.ListServicesRequest); ok {
			pages++
		}
	}
	if pages != 4 {
		t.Errorf("%d pages were asked for, want 4", pages)
	}
}
