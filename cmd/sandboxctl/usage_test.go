// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// usageErrorCase is a line that cannot be carried out, and what it is told.
type usageErrorCase struct {
	args string // split at spaces; "''" is an empty argument
	want string
}

// Every way to type a line that cannot be carried out: exit code 2, a message
// that names the fault, nothing on standard output and nothing asked of the
// gateway.
func TestUsageErrors(t *testing.T) {
	wantUsageErrors(t, []usageErrorCase{
		{"", "needs a command: one of completion, gateway, sandbox, service, version"},
		{"sandboxes", `there is no command "sandboxes": did you mean sandbox?`},
		{"help sandboxes", `there is no command "sandboxes": did you mean sandbox?`},
		{"help sandbox make", `sandbox: there is no command "make": it is one of`},
		{"sandbox", "sandbox: needs a command: one of create, delete, get, list, start, stop"},
		{"sandbox make", `sandbox: there is no command "make": it is one of create, delete, get, list, start, stop`},
		{"sandbox lst", `sandbox: there is no command "lst": did you mean get or list?`},
		{"service", "service: needs a command: one of delete, expose, forward, get, history, list, open, wait, watch"},
		{"gateway", "gateway: needs a command: one of status"},
		{"gateway stat", `did you mean status?`},

		{"--nonsense", "unknown flag: --nonsense"},
		{"sandbox list --nonsense", "sandbox list: unknown flag: --nonsense"},
		{"sandbox list -x", "unknown shorthand flag: 'x' in -x"},
		{"sandbox list -o xml", `--output: "xml" is none of table, json, yaml`},
		{"sandbox list -o", "flag needs an argument: 'o' in -o"},
		{"sandbox list --timeout soon", `--timeout: "soon" is no duration: write it like 30s or 2m`},
		{"sandbox list --timeout 30", `--timeout: "30" is no duration`},
		{"sandbox list --timeout 0s", "--timeout: 0s is not more than zero"},
		{"sandbox list --timeout -1s", "--timeout: -1s is not more than zero"},
		{"sandbox list --gateway ''", "--gateway: is empty"},
		{"sandbox list --token-file ''", "--token-file: is empty"},
		{"sandbox list --ca-file ''", "--ca-file: is empty"},
		{"sandbox list --state-dir ''", "--state-dir: is empty"},
		{"gateway status --gateway 127.0.0.1:1", `--gateway: must be "https://HOST:PORT"`},
		{"gateway status --gateway ftp://h", `--gateway: must be "https://HOST:PORT"`},
		{"gateway status --gateway https://h:0", "--gateway: port must be a number from 1 to 65535"},
		{"gateway status --gateway https://h/x", "--gateway: must end after the port"},
		{"gateway status --gateway http://10.0.0.1:1", "--gateway: plain text (http) is for this machine only: use https"},
		{"sandbox list --token t", "unknown flag: --token"},

		{"service get w\xff", "sandbox is not UTF-8, as every text in a request must be"},
		{"service wait web d\xff", "name is not UTF-8"},
		{"service watch w\xff", "name is not UTF-8"},
		{"sandbox create web -- ls \xff", "spec.command[1] is not UTF-8"},

		{"sandbox create", "sandbox create: needs NAME"},
		{"sandbox create ''", "sandbox create: needs NAME, and it is empty"},
		{"sandbox create -- sleep", "sandbox create: needs NAME"},
		{"sandbox create web sleep", `sandbox create: takes one NAME: "sleep" is one too many (a command goes after --)`},
		{"sandbox create web sleep -- 5", `"sleep" is one too many`},
		{"sandbox create x --driver docker", `--driver: "docker" is none of external, local`},
		{"sandbox create x --expose 0", `--expose: port "0" is not a number from 1 to 65535`},
		{"sandbox create x --expose 65536", `--expose: port "65536" is not`},
		{"sandbox create x --expose http", `--expose: port "http" is not`},
		{"sandbox create x --expose ''", `--expose: port "" is not`},
		{"sandbox create x --expose docs=", `--expose: port "" is not`},
		{"sandbox create x --expose =80", `--expose: "=80" has no name before the =`},
		{"sandbox create x --expose +80", `--expose: port "+80" is not`},
		{"sandbox create x --expose 80 --expose 81", "--expose: there is one unnamed service: name the others, NAME=PORT"},
		{"sandbox create x --expose a=80 --expose a=81", `--expose: service "a" is given twice`},
		{"sandbox create x --expose-readiness-path /ready", "--expose-readiness-path needs --expose"},
		{"sandbox create x --expose-readiness-path /ready --expose 80 --expose a=81", "--expose-readiness-path is for one --expose, and there are 2"},
		{"sandbox create x --label team", `--label: "team" is not of the form KEY=VALUE`},
		{"sandbox create x --label =blue", `--label: "=blue" is not of the form KEY=VALUE`},
		{"sandbox create x --label a=1 --label a=2", `--label: "a" is given twice`},
		{"sandbox create x --env " + token, "--env: a value is not of the form KEY=VALUE"},
		{"sandbox create x --env =" + token, "--env: a value is not of the form KEY=VALUE"},
		{"sandbox create x --env A=1 --env A=" + token, `--env: "A" is given twice`},
		{"sandbox create x --image ''", "--image: is empty"},
		{"sandbox get", "sandbox get: needs NAME"},
		{"sandbox get a b", `sandbox get: takes 1 argument: "b" is one too many`},
		{"sandbox list web", `sandbox list: takes no arguments: "web" is one too many`},
		{"sandbox list -A -w blue", "--all-workspaces and --workspace exclude each other"},
		{"sandbox list -l ''", "--selector: is empty"},
		{"sandbox list --all-workspaces=maybe", `invalid argument "maybe" for "-A, --all-workspaces" flag`},
		{"sandbox stop", "sandbox stop: needs NAME"},
		{"sandbox stop a b", `"b" is one too many`},
		{"sandbox start", "sandbox start: needs NAME"},
		{"sandbox start a b", `"b" is one too many`},
		{"sandbox delete", "sandbox delete: needs NAME"},
		{"sandbox delete ''", "sandbox delete: needs NAME, and it is empty"},
		{"sandbox delete a b", `"b" is one too many`},

		{"gateway status now", `gateway status: takes no arguments: "now" is one too many`},
		{"version 1", `version: takes no arguments: "1" is one too many`},
		{"completion", "completion: needs SHELL"},
		{"completion tcsh", `SHELL: "tcsh" is none of bash, zsh, fish`},
	})
}

func TestUsageErrorsOfServices(t *testing.T) {
	wantUsageErrors(t, []usageErrorCase{
		{"service expose", "service expose: needs SANDBOX"},
		{"service expose web", "service expose: needs PORT"},
		{"service expose web 0", `service expose: port "0" is not a number from 1 to 65535`},
		{"service expose web 99999", `port "99999" is not`},
		{"service expose web docs 80", `port "docs" is not`},
		{"service expose web 80 docs more", `service expose: takes 3 arguments: "more" is one too many`},
		{"service expose web 80 --readiness-path", "flag needs an argument: --readiness-path"},
		{"service get", "service get: needs SANDBOX"},
		{"service get a b c", `service get: takes 2 arguments: "c" is one too many`},
		{"service list a b", `service list: takes 1 argument: "b" is one too many`},
		{"service list -A -w blue", "--all-workspaces and --workspace exclude each other"},
		{"service watch a b c", `service watch: takes 2 arguments: "c" is one too many`},
		{"service watch -A -w blue", "--all-workspaces and --workspace exclude each other"},
		{"service watch -A web", "--all-workspaces and SANDBOX exclude each other"},
		{"service watch -l ''", "--selector: is empty"},
		{"service watch --timeout 0s", "--timeout: 0s is not more than zero"},
		{"service wait", "service wait: needs SANDBOX"},
		{"service wait a b c", `service wait: takes 2 arguments: "c" is one too many`},
		{"service wait web --for ready", `--for: "ready" is none of healthy, unhealthy, unknown`},
		{"service wait web --for healthy,", `--for: "" is none of healthy, unhealthy, unknown`},
		{"service wait web --timeout 5", `--timeout: "5" is no duration`},
		{"service history", "service history: needs SANDBOX"},
		{"service history a b c", `service history: takes 2 arguments: "c" is one too many`},
		{"service delete", "service delete: needs SANDBOX"},
		{"service delete a b c", `"c" is one too many`},
	})
}

func wantUsageErrors(t *testing.T, list []usageErrorCase) {
	t.Helper()
	f := newFixture(t)
	f.fill()
	for _, tt := range list {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			for i, arg := range args {
				if arg == "''" {
					args[i] = ""
				}
			}
			got := f.run(t, args...)
			if got.code != exitUsage || !strings.Contains(got.err, tt.want) {
				t.Errorf("exit %d, stderr:\n%swant exit %d and %q", got.code, got.err, exitUsage, tt.want)
			}
			if got.out != "" {
				t.Errorf("stdout: %s", got.out)
			}
		})
	}
	if asked := f.Requests(); len(asked) != 0 {
		t.Errorf("the gateway was asked: %v", asked)
	}
}
