// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

type (
	createReq        = openshellv1.CreateSandboxRequest
	getReq           = openshellv1.GetSandboxRequest
	listReq          = openshellv1.ListSandboxesRequest
	stopReq          = openshellv1.StopSandboxRequest
	startReq         = openshellv1.StartSandboxRequest
	deleteReq        = openshellv1.DeleteSandboxRequest
	exposeReq        = openshellv1.ExposeServiceRequest
	getServiceReq    = openshellv1.GetServiceRequest
	listServicesReq  = openshellv1.ListServicesRequest
	deleteServiceReq = openshellv1.DeleteServiceRequest
	exposure         = openshellv1.SandboxServiceExposure
	spec             = openshellv1.SandboxSpec
)

const (
	nameRule  = `; names are lowercase DNS labels of at most 28 characters without "--"`
	pairRule  = `: control characters, blanks, "=" and "," are not allowed`
	tokenRule = `; use the next_page_token of the page before, unchanged`
	uuidRule  = `request_id: is not a UUID such as 6ba7b810-9dad-41d1-80b4-00c04fd430c8`
	envRule   = `: names must not be empty or contain "=", nothing may contain a zero byte`
	evil      = "x\x1b[31m\u009b\u202e"
)

// badInput is a request that is refused, with all that its sender is told.
type badInput struct {
	req     proto.Message
	code    codes.Code
	message string
}

func bad(req proto.Message, message string) badInput {
	return badInput{req, codes.InvalidArgument, message}
}

// badNames are names and what is said of each after the field.
var badNames = []struct{ name, fault string }{
	{"Web", `"Web" contains 'W'`},
	{"-web", `"-web" begins or ends with "-"`},
	{"web-", `"web-" begins or ends with "-"`},
	{"web--x", `"web--x" contains "--"`},
	{"a.b", `"a.b" contains '.'`},
	{"a_b", `"a_b" contains '_'`},
	{"a b", `"a b" contains ' '`},
	{"a/b", `"a/b" contains '/'`},
	{"wéb", `"wéb" contains 'é'`},
	{"a\x00b", `"a\x00b" contains '\x00'`},
	{evil, `"x\x1b[31m\u009b\u202e" contains '\x1b'`},
	{strings.Repeat("a", 29), "has 29 characters"},
	{strings.Repeat("a", 5000), "has 5000 characters"},
	{strings.Repeat("é", 20), `"` + strings.Repeat("é", 20) + `" contains 'é'`},
	{strings.Repeat("é", 29), "has 29 characters"},
}

// nameFields are all fields that hold a name.
var nameFields = []struct {
	field    string
	required bool
	request  func(name string) proto.Message
}{
	{"name", false, func(n string) proto.Message { return &createReq{Name: n} }},
	{"name", true, func(n string) proto.Message { return &openshellv1.GetWorkspaceRequest{Name: n} }},
	{"name", true, func(n string) proto.Message { return &getReq{Name: n} }},
	{"name", true, func(n string) proto.Message { return &stopReq{Name: n} }},
	{"name", true, func(n string) proto.Message { return &startReq{Name: n} }},
	{"name", true, func(n string) proto.Message { return &deleteReq{Name: n, AllowMissing: true} }},
	{"sandbox", true, func(n string) proto.Message { return &exposeReq{Sandbox: n, TargetPort: 80} }},
	{"name", false, func(n string) proto.Message { return &exposeReq{Sandbox: "web", Name: n, TargetPort: 80} }},
	{"sandbox", true, func(n string) proto.Message { return &getServiceReq{Sandbox: n} }},
	{"name", false, func(n string) proto.Message { return &getServiceReq{Sandbox: "web", Name: n} }},
	{"sandbox", false, func(n string) proto.Message { return &listServicesReq{Sandbox: n} }},
	{"sandbox", true, func(n string) proto.Message { return &deleteServiceReq{Sandbox: n, AllowMissing: true} }},
	{"name", false, func(n string) proto.Message {
		return &deleteServiceReq{Sandbox: "web", Name: n, AllowMissing: true}
	}},
	{"service_exposures[1].service", false, func(n string) proto.Message {
		return &createReq{Name: "new", ServiceExposures: []*exposure{{Service: "a", TargetPort: 80}, {Service: n, TargetPort: 80}}}
	}},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &createReq{Name: "new", WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &getReq{Name: "web", WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &listReq{WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &stopReq{Name: "web", WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &startReq{Name: "web", WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &deleteReq{Name: "web", WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message {
		return &exposeReq{Sandbox: "web", TargetPort: 80, WorkspaceScope: workspace(n)}
	}},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &getServiceReq{Sandbox: "web", WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message { return &listServicesReq{WorkspaceScope: workspace(n)} }},
	{"workspace_scope.workspace", false, func(n string) proto.Message {
		return &deleteServiceReq{Sandbox: "web", WorkspaceScope: workspace(n)}
	}},
}

func badNameInputs() (list []badInput) {
	for _, f := range nameFields {
		for _, n := range badNames {
			list = append(list, bad(f.request(n.name), f.field+": "+n.fault+nameRule))
		}
		if f.required {
			list = append(list, bad(f.request(""), f.field+": is empty"+nameRule))
		}
	}
	return list
}

// badPaths are readiness paths and what is said of each after the field.
var badPaths = []struct{ path, fault string }{
	{"ready", `path begins with "r": a path begins with "/" and names no scheme or host`},
	{"http://127.0.0.1/", `path begins with "h": a path begins with "/" and names no scheme or host`},
	{"//evil.example/", `path begins with "//": what follows would name another host`},
	{`/\evil.example/`, `path begins with "/\\": what follows would name another host`},
	{"/a?b=c", `path has "?" at byte 2: a path has no query`},
	{"/a#b", `path has "#" at byte 2: a path has no fragment`},
	{"/a b", `path has byte 0x20 at byte 2: a path has no white space and no control characters`},
	{"/a\r\nHost: evil", `path has byte 0x0d at byte 2: a path has no white space and no control characters`},
	{"/a\x1b[31m", `path has byte 0x1b at byte 2: a path has no white space and no control characters`},
	{"/é", `path has byte 0xc3 at byte 1: a path is ASCII, percent-encode the rest`},
	{"/" + strings.Repeat("a", 1024), `path of 1025 bytes: a path has at most 1024`},
}

func badServiceInputs() []badInput {
	list := []badInput{
		bad(&exposeReq{Sandbox: "web"}, `target_port: 0 is not a TCP port; it must be in 1..65535`),
		bad(&exposeReq{Sandbox: "web", TargetPort: 65536}, `target_port: 65536 is not a TCP port; it must be in 1..65535`),
		bad(&exposeReq{Sandbox: "web", TargetPort: 1<<32 - 1}, `target_port: 4294967295 is not a TCP port; it must be in 1..65535`),
		bad(&createReq{Name: "new", ServiceExposures: []*exposure{{}}}, `service_exposures[0].target_port: 0 is not a TCP port; it must be in 1..65535`),
		bad(&createReq{Name: "new", ServiceExposures: []*exposure{{TargetPort: 1 << 16}}}, `service_exposures[0].target_port: 65536 is not a TCP port; it must be in 1..65535`),
		bad(&createReq{Name: "new", ServiceExposures: []*exposure{{TargetPort: 1}, {TargetPort: 2}}}, `service_exposures[1].service: "" appears twice`),
		bad(&createReq{Name: "new", ServiceExposures: []*exposure{{Service: "a", TargetPort: 1}, {Service: "a", TargetPort: 2}}}, `service_exposures[1].service: "a" appears twice`),
		bad(&createReq{Name: "new", ServiceExposures: make([]*exposure, 257)}, `service_exposures: has 257 entries; a sandbox has at most 256 services`),
		{&exposeReq{Sandbox: "none", TargetPort: 80}, codes.NotFound, `sandbox "none" in workspace "default" does not exist`},
		{&exposeReq{Sandbox: "web", TargetPort: 80, WorkspaceScope: workspace("other")}, codes.NotFound, `sandbox "web" in workspace "other" does not exist`},
		{&getServiceReq{Sandbox: "web"}, codes.NotFound, `the unnamed service of sandbox "web" in workspace "default" does not exist`},
		{&getServiceReq{Sandbox: "web", Name: "none"}, codes.NotFound, `service "none" of sandbox "web" in workspace "default" does not exist`},
		{&getServiceReq{Sandbox: "none", Name: "api"}, codes.NotFound, `service "api" of sandbox "none" in workspace "default" does not exist`},
		{&deleteServiceReq{Sandbox: "web"}, codes.NotFound, `the unnamed service of sandbox "web" in workspace "default" does not exist`},
		{&deleteServiceReq{Sandbox: "none", Name: "api"}, codes.NotFound, `service "api" of sandbox "none" in workspace "default" does not exist`},
		{&listServicesReq{Sandbox: "none"}, codes.NotFound, `sandbox "none" in workspace "default" does not exist`},
		bad(&listServicesReq{PageSize: -1}, `page_size: -1 is negative; it must be in 0..1000, 0 meaning 100`),
		bad(&listServicesReq{PageToken: "x"}, `page_token: is not a page token of this gateway`+tokenRule),
		bad(&listServicesReq{Sandbox: "web", WorkspaceScope: allWorkspaces()}, `sandbox: "web" cannot be asked for in all workspaces; name its workspace`),
		bad(&listServicesReq{Sandbox: evil, WorkspaceScope: allWorkspaces()}, `sandbox: "x\x1b[31m\u009b\u202e" cannot be asked for in all workspaces; name its workspace`),
	}
	for _, p := range badPaths {
		list = append(list,
			bad(&exposeReq{Sandbox: "web", TargetPort: 80, ReadinessCheck: check(p.path)}, "readiness_check.path: "+p.fault),
			bad(&createReq{Name: "new", ServiceExposures: []*exposure{{TargetPort: 80, ReadinessCheck: check(p.path)}}}, "service_exposures[0].readiness_check.path: "+p.fault))
	}
	return list
}

func entries(n int) map[string]string {
	m := make(map[string]string)
	for i := range n {
		m[fmt.Sprintf("k%03d", i)] = "v"
	}
	return m
}

func badSandboxInputs() []badInput {
	large := strings.Repeat("v", 4097)
	list := []badInput{
		{&createReq{Name: "web"}, codes.AlreadyExists, `sandbox "web" in workspace "default" exists already`},
		bad(&createReq{Name: "new", Annotations: map[string]string{DriverAnnotation: "docker"}}, `annotations[sandbox-agent.dev/driver]: unknown driver "docker": use external or local`),
		bad(&createReq{Name: "new", Annotations: map[string]string{DriverAnnotation: "\u202e"}}, `annotations[sandbox-agent.dev/driver]: unknown driver "\u202e": use external or local`),
		{&getReq{Name: "none"}, codes.NotFound, `sandbox "none" in workspace "default" does not exist`},
		{&getReq{Name: "web", WorkspaceScope: workspace("other")}, codes.NotFound, `sandbox "web" in workspace "other" does not exist`},
		{&stopReq{Name: "none"}, codes.NotFound, `sandbox "none" in workspace "default" does not exist`},
		{&startReq{Name: "none"}, codes.NotFound, `sandbox "none" in workspace "default" does not exist`},
		{&deleteReq{Name: "none"}, codes.NotFound, `sandbox "none" in workspace "default" does not exist`},
		bad(&listReq{PageSize: -5}, `page_size: -5 is negative; it must be in 0..1000, 0 meaning 100`),
		bad(&listReq{PageToken: "%"}, `page_token: is not a page token of this gateway`+tokenRule),
		bad(&listReq{LabelSelector: "a"}, `label_selector: term "a" is not of the form key=value`),
		bad(&listReq{LabelSelector: "=b"}, `label_selector: term "=b" is not of the form key=value`),
		bad(&listReq{LabelSelector: "a=b,"}, `label_selector: term "" is not of the form key=value`),
		bad(&listReq{LabelSelector: evil}, `label_selector: term "x\x1b[31m\u009b\u202e" is not of the form key=value`),
		bad(&listReq{LabelSelector: "x=y,a!=b"}, `label_selector: term "a!=b": there are no operators, only key=value`),
		bad(&listReq{LabelSelector: "a==b"}, `label_selector: term "a==b": there are no operators, only key=value`),
		bad(&listReq{LabelSelector: "a=b,a=c"}, `label_selector: key "a" is asked to have two values`),
		bad(&listReq{LabelSelector: "a=b, c=d"}, `label_selector: key " c"`+pairRule),
		bad(&listReq{LabelSelector: "a=\x00"}, `label_selector: the value of "a" contains control characters or is not UTF-8`),
	}
	for field, request := range map[string]func(map[string]string) proto.Message{
		"labels":      func(m map[string]string) proto.Message { return &createReq{Name: "new", Labels: m} },
		"annotations": func(m map[string]string) proto.Message { return &createReq{Name: "new", Annotations: m} },
	} {
		for _, c := range []struct {
			pairs map[string]string
			fault string
		}{
			{map[string]string{"": "v"}, `a key has 0 bytes; it must have 1..253`},
			{map[string]string{strings.Repeat("k", 254): "v"}, `a key has 254 bytes; it must have 1..253`},
			{map[string]string{"k": large}, `the value of "k" has 4097 bytes; at most 4096 are allowed`},
			{map[string]string{"a b": "v"}, `key "a b"` + pairRule},
			{map[string]string{"a=b": "v"}, `key "a=b"` + pairRule},
			{map[string]string{"a,b": "v"}, `key "a,b"` + pairRule},
			{map[string]string{"a\nb": "v"}, `key "a\nb"` + pairRule},
			{map[string]string{"k": evil}, `the value of "k" contains control characters or is not UTF-8`},
			{map[string]string{"b": large, "a": evil, "c": "ok"}, `the value of "a" contains control characters or is not UTF-8`},
			{entries(65), `has 65 entries; at most 64 are allowed`},
		} {
			list = append(list, bad(request(c.pairs), field+": "+c.fault))
		}
	}
	return append(list, badSpecInputs()...)
}

func badSpecInputs() (list []badInput) {
	for _, c := range []struct {
		spec    *spec
		message string
	}{
		{&spec{Command: []string{"sh", "-c", "a\x00b"}}, `spec.command[2]: contains a zero byte`},
		{&spec{Command: []string{"", "x"}}, `spec.command[0]: is empty; it names the program`},
		{&spec{Command: []string{"sh", strings.Repeat("a", 64<<10)}}, `spec.command: has 65540 bytes; at most 65536 are allowed`},
		{&spec{Environment: map[string]string{"": "v"}}, `spec.environment: name ""` + envRule},
		{&spec{Environment: map[string]string{"A=B": "v"}}, `spec.environment: name "A=B"` + envRule},
		{&spec{Environment: map[string]string{"A\x00": "v"}}, `spec.environment: name "A\x00"` + envRule},
		{&spec{Environment: map[string]string{"A": "secret\x00"}}, `spec.environment: name "A"` + envRule},
		{&spec{Environment: map[string]string{"A": strings.Repeat("a", 64<<10)}}, `spec.environment: has 65539 bytes; at most 65536 are allowed`},
		{&spec{Environment: entries(257)}, `spec.environment: has 257 entries; at most 256 are allowed`},
		{&spec{Template: &openshellv1.SandboxTemplate{Image: strings.Repeat("a", 513)}}, `spec.template.image: is longer than 512 bytes or contains control characters`},
		{&spec{Template: &openshellv1.SandboxTemplate{Image: evil}}, `spec.template.image: is longer than 512 bytes or contains control characters`},
		{&spec{LogLevel: "chatty"}, `spec.log_level: "chatty" is not one of debug, info, warn, error`},
		{&spec{LogLevel: evil}, `spec.log_level: "x\x1b[31m\u009b\u202e" is not one of debug, info, warn, error`},
	} {
		list = append(list, bad(&createReq{Name: "new", Spec: c.spec}, c.message))
	}
	return list
}

// Mutations that would succeed but for their request id or workspace.
func badScopeInputs() (list []badInput) {
	for _, id := range []struct{ id, message string }{
		{"1", uuidRule},
		{"6ba7b810-9dad-41d1-80b4-00c04fd430cg", uuidRule},
		{"6ba7b8109dad41d180b400c04fd430c8", uuidRule},
		{"{6ba7b810-9dad-41d1-80b4-00c04fd430c8}", uuidRule},
		{"urn:uuid:6ba7b810-9dad-41d1-80b4-00c04fd430c8", uuidRule},
		{evil, uuidRule},
		{"00000000-0000-0000-0000-000000000000", `request_id: is the zero UUID; it must be a random one`},
	} {
		for _, m := range mutations() {
			list = append(list, bad(withField(m, "request_id", id.id), id.message))
		}
	}
	const allRule = `workspace_scope: all_workspaces is allowed on list requests only; name one workspace`
	for _, m := range append(mutations(), &getReq{Name: "web"}, &getServiceReq{Sandbox: "web", Name: "api"}) {
		list = append(list, bad(withScope(m, allWorkspaces()), allRule))
	}
	return list
}

// mutations are one valid request of each mutating RPC.
func mutations() []proto.Message {
	return []proto.Message{
		&createReq{Name: "new"}, &stopReq{Name: "web"}, &startReq{Name: "web"}, &deleteReq{Name: "web"},
		&exposeReq{Sandbox: "web", TargetPort: 80}, &deleteServiceReq{Sandbox: "web", Name: "api"},
	}
}

func withScope(m proto.Message, scope *datamodelv1.WorkspaceSelector) proto.Message {
	m = proto.Clone(m)
	r := m.ProtoReflect()
	r.Set(r.Descriptor().Fields().ByName("workspace_scope"), protoreflectMessage(scope))
	return m
}

// long is what nobody wants to be told back.
var (
	long = strings.Repeat("l", 60_000)
	told = strings.Repeat("l", 64)
)

func longInputs() []badInput {
	return []badInput{
		bad(&listReq{LabelSelector: long}, `label_selector: term "`+told+`" is not of the form key=value`),
		bad(&listReq{LabelSelector: long + "=1," + long + "=2"}, `label_selector: key "`+told+`" is asked to have two values`),
		bad(&listServicesReq{Sandbox: long, WorkspaceScope: allWorkspaces()}, `sandbox: "`+told+`" cannot be asked for in all workspaces; name its workspace`),
		bad(&createReq{Name: "new", Spec: &spec{LogLevel: long}}, `spec.log_level: "`+told+`" is not one of debug, info, warn, error`),
		bad(&createReq{Name: "new", Spec: &spec{Environment: map[string]string{long: "\x00"}}}, `spec.environment: name "`+told+`"`+envRule),
		bad(&createReq{Name: "new", Annotations: map[string]string{DriverAnnotation: long[:4096]}}, `annotations[sandbox-agent.dev/driver]: unknown driver "`+told+`": use external or local`),
		bad(&createReq{Name: "new", Labels: map[string]string{long: ""}}, `labels: a key has 60000 bytes; it must have 1..253`),
		bad(&exposeReq{Sandbox: "web", TargetPort: 80, RequestId: long}, uuidRule),
		bad(&listServicesReq{PageToken: long}, `page_token: is not a page token of this gateway`+tokenRule),
	}
}

// TestBadInput holds, for each RPC and each of its fields, what its sender is
// told, and that nothing was changed.
func TestBadInput(t *testing.T) {
	w := newWorld(t)
	w.create("web", &exposure{Service: "api", TargetPort: 8080, ReadinessCheck: check("/ready")})
	before := w.everything()
	total := 0
	for _, part := range [][]badInput{badNameInputs(), badServiceInputs(), badSandboxInputs(), badScopeInputs(), longInputs()} {
		for _, c := range part {
			_, err := w.call(c.req)
			what := fmt.Sprintf("%T{%.100q}", c.req, fmt.Sprint(c.req))
			wantError(t, what, err, c.code, c.message)
			if text := status.Convert(err).Message(); strings.ContainsFunc(text, func(r rune) bool { return !printable(r) }) {
				t.Errorf("%s: answered raw %q", what, text)
			}
		}
		w.unchanged(fmt.Sprintf("one of %d requests from %v on", len(part), part[0].req), before)
		total += len(part)
	}
	if total < 400 {
		t.Errorf("the table has %d entries: a part of it is missing", total)
	}
}

func TestTooManyServices(t *testing.T) {
	w := newWorld(t)
	var all []*exposure
	for i := range 256 {
		all = append(all, &exposure{Service: fmt.Sprintf("s%d", i), TargetPort: 80})
	}
	w.create("web", all...)
	before := w.everything()
	_, err := w.call(&exposeReq{Sandbox: "web", Name: "more", TargetPort: 80})
	wantError(t, "the 257th service", err, codes.ResourceExhausted, `service "more" of sandbox "web" in workspace "default": a sandbox has at most 256 services`)
	w.unchanged("the 257th service", before)
	w.expose(&exposeReq{Sandbox: "web", Name: "s7", TargetPort: 81}) // one that exists still changes
}
