// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// target is a gateway and how to be let in, each with the place that named it.
type target struct {
	address, addressFrom string
	token                sandbox.Token
	tokenFrom            string
	caFile, caFrom       string
}

// sources are what a target is found in.
type sources struct {
	flags    globals
	env      map[string]string
	euid     int
	readFile func(name string) ([]byte, error)
}

func (a *app) sources() sources {
	return sources{flags: a.flags, env: a.env, euid: a.euid, readFile: readSmall}
}

// layer is one place that may name things; empty strings name nothing.
type layer struct {
	gateway, gatewayFrom     string
	token                    string
	tokenFile, tokenFileFrom string
	caFile, caFrom           string
	local                    bool // client.json: its token and CA are for its own gateway alone
}

// findGateway looks in the flags, the environment and client.json, in that
// order; an explicit --state-dir puts its client.json before the environment.
// What client.json says of token and authority counts for its own address
// only, so that no other gateway is sent the token of this machine's.
func findGateway(s sources, needsToken bool) (target, error) {
	flags := layer{
		gateway: s.flags.gateway.value, gatewayFrom: "--gateway",
		tokenFile: s.flags.tokenFile.value, tokenFileFrom: "--token-file",
		caFile: s.flags.caFile.value, caFrom: "--ca-file",
	}
	env := layer{
		gateway: s.env["SANDBOX_GATEWAY"], gatewayFrom: "SANDBOX_GATEWAY",
		token: s.env["SANDBOX_TOKEN"], tokenFile: s.env["SANDBOX_TOKEN_FILE"], tokenFileFrom: "SANDBOX_TOKEN_FILE",
		caFile: s.env["SANDBOX_CA_FILE"], caFrom: "SANDBOX_CA_FILE",
	}
	local, localErr := localLayer(s)
	order := []layer{flags, env, local}
	if s.flags.stateDir.value != "" {
		order = []layer{flags, local, env}
	}

	var t target
	for _, l := range order {
		if l.gateway != "" {
			t.address, t.addressFrom = l.gateway, l.gatewayFrom
			break
		}
		if l.local && localErr != nil && s.flags.stateDir.value != "" {
			return target{}, localErr
		}
	}
	if t.address == "" {
		return target{}, localErr
	}
	for _, l := range order {
		if l.local && strings.TrimSuffix(l.gateway, "/") != strings.TrimSuffix(t.address, "/") {
			continue
		}
		if t.caFile == "" && l.caFile != "" {
			t.caFile, t.caFrom = l.caFile, l.caFrom
		}
		if !needsToken {
			continue
		}
		if err := t.takeToken(l, s.readFile); err != nil {
			return target{}, err
		}
	}
	if t.token == "" && needsToken {
		return target{}, &failure{
			err:  fmt.Errorf("no token for the gateway at %s (named by %s)", t.address, t.addressFrom),
			next: "Name a file that holds it with --token-file or SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN.",
		}
	}
	return t, nil
}

// takeToken takes the layer's token unless there is one already.
func (t *target) takeToken(l layer, readFile func(string) ([]byte, error)) error {
	switch {
	case t.token != "":
		return nil
	case l.token != "":
		t.token, t.tokenFrom = sandbox.Token(strings.TrimSpace(l.token)), "SANDBOX_TOKEN"
		return nil
	case l.tokenFile == "":
		return nil
	}
	b, err := readFile(l.tokenFile)
	if err != nil {
		return &failure{err: fmt.Errorf("cannot read the token named by %s: %w", l.tokenFileFrom, err)}
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return &failure{err: fmt.Errorf("the token file %s (named by %s) is empty", l.tokenFile, l.tokenFileFrom)}
	}
	t.token, t.tokenFrom = sandbox.Token(token), l.tokenFile
	return nil
}

// blame says which source named the value that cannot be used.
func (t target) blame(err error) error {
	wrong, ok := errors.AsType[*sandbox.OptionError](err)
	if !ok {
		return err
	}
	source := map[string]string{"Address": t.addressFrom, "CAFile": t.caFrom, "Token": "the token from " + t.tokenFrom}[wrong.Field]
	said := fmt.Errorf("%s: %w", source, wrong.Err)
	if wrong.Field == "Address" && source == "--gateway" {
		return &usageError{err: said}
	}
	return &failure{err: said}
}
