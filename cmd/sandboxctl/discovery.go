// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// search is how the gateway is looked for: as the SDK does, behind the flags.
func (a *app) search(needsToken bool) sandbox.Search {
	named := func(t text) sandbox.Named { return sandbox.Named{Value: t.value, By: t.flag} }
	return sandbox.Search{
		Address:   named(a.flags.gateway),
		TokenFile: named(a.flags.tokenFile),
		CAFile:    named(a.flags.caFile),
		StateDir:  a.flags.stateDir.value,
		NoToken:   !needsToken,
		Env:       func(name string) string { return a.env[name] },
		Root:      a.euid == 0,
	}
}

// judgeDiscovery finds the words for a gateway that was not found. What helps
// names flags, which the SDK does not know.
func judgeDiscovery(wrong *sandbox.DiscoveryError) verdict {
	v := verdict{code: exitFailed, text: wrong.Err.Error()}
	switch wrong.Fault {
	case sandbox.FaultNoGateway:
		if wrong.Source != "" {
			v.text += ": start one with `sandbox-gateway serve`, or name it with --gateway"
		} else {
			v.text += ": name it with --gateway"
		}
	case sandbox.FaultNoToken:
		v.next = "Name a file that holds it with --token-file or SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN."
	case sandbox.FaultClientFile:
		v.next = "Name the gateway with --gateway."
		if errors.Is(wrong, fs.ErrPermission) {
			v.next = "The gateway there belongs to another user: work as that user, or name it with --gateway, --ca-file and --token-file."
		}
	case sandbox.FaultClientContent:
		v.next = "Start the gateway again, or name it with --gateway."
	case sandbox.FaultTokenFile:
	case sandbox.FaultValue:
		if wrong.Source == "--gateway" {
			v.code = exitUsage
		}
	}
	return v
}
