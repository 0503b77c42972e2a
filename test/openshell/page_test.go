// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package openshell

import (
	"fmt"
	"strings"
)

// command is a command of the compiled program, and the calls that it makes in
// this order.
type command struct{ name, calls string }

// What the program calls, as read in its source at 0.0.111. TestClient fails
// for a call that the package does not have.
var commands = []command{
	{"status", "Health GetGatewayInfo"},
	{"gateway info", "GetGatewayInfo"},
	{"whoami", "GetCurrentUser"},
	{"workspace list", "ListWorkspaces"},
	{"workspace get", "GetWorkspace"},
	{"sandbox list", "ListSandboxes"},
	{"sandbox get", "GetSandbox GetSandboxConfig"},
	{"sandbox create", "CreateSandbox WatchSandbox"},
	{"sandbox stop", "StopSandbox WatchSandbox"},
	{"sandbox start", "StartSandbox WatchSandbox"},
	{"sandbox delete", "DeleteSandbox"},
	{"service expose", "ExposeService"},
	{"service list", "ListServices"},
	{"service get", "GetService"},
	{"service delete", "DeleteService"},
}

const intro = `# OpenShell clients

This gateway serves the published OpenShell API as far as it goes: sandboxes, their services, workspaces to read. What
it does not have is answered UNIMPLEMENTED with a text that says what is missing; nothing hangs and nothing is an
internal error. This page is written by a test (` + "`make e2e-openshell`" + `), which drives a real gateway with real sandboxes
through every class and every call of the package ` + "`openshell` %s" + ` from PyPI, and compares its descriptors with ours.

## How a client finds the gateway

The package, and OpenShell's own command, read ` + "`$XDG_CONFIG_HOME/openshell`, by default `~/.config/openshell`" + `. The gateway's
admin token takes the place of a login, and its CA that of a public one; both lie in its state directory. For a gateway
that you call ` + "`here`" + `:

` + "```" + `
state=/var/lib/sandbox-gateway                  # of users other than root: ~/.local/state/sandbox-gateway
config=~/.config/openshell
mkdir -p $config/gateways/here/mtls
cp $state/ca.crt $config/gateways/here/mtls/
echo '{"name": "here", "gateway_endpoint": "https://127.0.0.1:17670", "is_remote": false, "gateway_port": 17670, "auth_mode": "oidc"}' > $config/gateways/here/metadata.json
(umask 077; echo '{"access_token": "'$(cat $state/admin.token)'", "issuer": "", "client_id": ""}' > $config/gateways/here/oidc_token.json)
echo here > $config/active_gateway
` + "```" + `

` + "```python" + `
import openshell
with openshell.SandboxClient.from_active_cluster() as client:
    print(client.health(), client.list_all(workspace="default"))
` + "```" + `

A program can pass the same itself: ` + "`SandboxClient(\"127.0.0.1:17670\", tls=TlsConfig(ca_path=...), bearer_token=...)`" + `. The
gateway has TLS always, no plain text, and asks for no client certificate.
`

// page renders docs/openshell.md.
func page(version string, all []step, c *comparison) []byte {
	b := &strings.Builder{}
	fmt.Fprintf(b, intro, version)
	b.WriteString("\n## The Python client\n")
	for _, area := range []struct{ name, about string }{
		{"connection", "Connecting."},
		{"SandboxClient", ""},
		{"SandboxSession", ""},
		{"Sandbox", "The context manager."},
		{"WorkspaceClient", "A workspace is there while a sandbox is in it; `default` always is."},
		{"SandboxTemplateClient", ""},
		{"ProviderClient", ""},
		{"services", "Services have no class in the package; these are its stubs and messages."},
		{"sandboxes", "What a sandbox may meet."},
		{"requests", "A sandbox that would lack what keeps it in bounds, or what it was to be made of, is refused; other fields that are not here are ignored (below)."},
	} {
		section(b, area.name, area.about, all)
	}
	b.WriteString("\n## Every call\n\nServed: " + code(c.served) + ".\n\nNot served; the text of the answer begins with the name of the call:\n\n")
	unserved(b, c.unserved, answers(all, "calls"))
	program(b, answers(all, "calls"))
	descriptors(b, c)
	return []byte(b.String())
}

func section(b *strings.Builder, area, about string, all []step) {
	fmt.Fprintf(b, "\n### %s\n\n", area)
	if about != "" {
		b.WriteString(about + "\n\n")
	}
	b.WriteString("| tried | answer |\n|---|---|\n")
	for _, s := range all {
		if s.Area != area {
			continue
		}
		answer := "works"
		switch s.Code {
		case "OK":
		case "UNAVAILABLE":
			answer = s.Code // its text is the client library's
		default:
			answer = s.Code + ": " + s.Text
		}
		name := s.Name
		if strings.HasPrefix(name, area+".") {
			name = "`" + strings.TrimPrefix(name, area+".") + "`"
		}
		fmt.Fprintf(b, "| %s | %s |\n", name, strings.ReplaceAll(answer, "|", `\|`))
	}
}

func code(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = "`" + n + "`"
	}
	return strings.Join(quoted, ", ")
}

// unserved writes calls of one text in one line, in the order in which the
// texts first come.
func unserved(b *strings.Builder, names []string, calls map[string]step) {
	var texts []string
	byText := make(map[string][]string)
	for _, name := range names {
		text := strings.TrimPrefix(calls[name].Text, name+": ")
		if byText[text] == nil {
			texts = append(texts, text)
		}
		byText[text] = append(byText[text], name)
	}
	b.WriteString("| text | calls |\n|---|---|\n")
	for _, text := range texts {
		fmt.Fprintf(b, "| %s | %s |\n", text, code(byText[text]))
	}
}

func program(b *strings.Builder, calls map[string]step) {
	b.WriteString(`
## The command ` + "`openshell`" + `

The package holds no command. OpenShell's own is a compiled program with an installer of its own, which no test here
can run. It reads the same files. What its commands call was read in its source at 0.0.111, before the API of 0.1; a
newer one may call more. How these calls are answered is tested:

| command | calls | answers |
|---|---|---|
`)
	for _, c := range commands {
		outcome := "its calls are answered"
		names := strings.Fields(c.calls)
		for i, name := range names {
			if calls[name].Code != "UNIMPLEMENTED" {
				continue
			}
			outcome = "what `" + name + "` is for is missing"
			if i > 0 {
				outcome += "; `" + names[i-1] + "` is carried out before"
			}
			break
		}
		fmt.Fprintf(b, "| `openshell %s` | %s | %s |\n", c.name, code(names), outcome)
	}
	b.WriteString(`
` + "`sandbox stop` and `sandbox start`" + ` watch only where the sandbox is not at once what was asked for. ` + "`gateway add` and\n`gateway login`" + ` look for an identity provider, which this gateway has not: write the files above instead. For people,
` + "`sandboxctl`" + ` is the command of this gateway.
`)
}

func descriptors(b *strings.Builder, c *comparison) {
	b.WriteString(`
## The descriptors

Every message, field, enum and call that both have is the same in name, number and type. A test holds that.

This API adds: ` + strings.Join(c.added, ", ") + `. A published client keeps these as unknown fields: it sees neither health nor readiness checks.
Numbers 7, 7 and 3, next to them, are the published ` + "`authorization_mode`" + `, which this gateway ignores: an ` + "`Authorization`" + ` header
reaches the application unless it is the gateway's own ([routing](routing.md)).

It leaves out, and ignores in requests but where the table above says that it refuses:

| of | left out |
|---|---|
` + strings.Join(c.left, "\n") + "\n\n" + `A command that ends by itself leaves its sandbox in the phase ERROR with its exit code, never COMPLETED.
`)
}
