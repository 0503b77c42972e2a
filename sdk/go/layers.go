// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"strings"
)

// layer is one place that may name things.
type layer struct {
	address   Named
	token     string
	tokenFile Named
	caFile    Named
	local     bool // client.json: its token and CA are for its own gateway alone
}

// envToken is the variable that holds a token and not a file's name.
const envToken = "SANDBOX_TOKEN"

func (s Search) env(name string) string {
	if s.Env == nil {
		return ""
	}
	return s.Env(name)
}

func (s Search) named(variable string) Named { return Named{Value: s.env(variable), By: variable} }

// find looks into what the program was told, the environment and client.json,
// in that order; a state directory that the program was told puts its
// client.json before the environment.
func (s Search) find(readFile func(name string) ([]byte, error)) (Found, error) {
	told := layer{address: s.Address, tokenFile: s.TokenFile, caFile: s.CAFile}
	env := layer{
		address: s.named("SANDBOX_GATEWAY"), token: s.env(envToken),
		tokenFile: s.named("SANDBOX_TOKEN_FILE"), caFile: s.named("SANDBOX_CA_FILE"),
	}
	local, localErr := s.localLayer(readFile)
	order := []layer{told, env, local}
	if s.StateDir != "" {
		order = []layer{told, local, env}
	}

	var f Found
	for _, l := range order {
		if l.address.Value != "" {
			f.Address, f.AddressFrom = l.address.Value, l.address.By
			break
		}
		if l.local && s.StateDir != "" {
			return Found{}, localErr
		}
	}
	if f.Address == "" {
		return Found{}, localErr
	}
	for _, l := range order {
		if l.local && strings.TrimSuffix(l.address.Value, "/") != strings.TrimSuffix(f.Address, "/") {
			continue
		}
		if f.CAFile == "" && l.caFile.Value != "" {
			f.CAFile, f.CAFileFrom = l.caFile.Value, l.caFile.By
		}
		if f.Token != "" || s.NoToken {
			continue
		}
		if err := s.takeToken(&f, l, readFile); err != nil {
			return Found{}, err
		}
	}
	if f.Token == "" && !s.NoToken {
		return Found{}, s.fail(FaultNoToken, f.AddressFrom, fmt.Errorf("no token for the gateway at %s (named by %s)", f.Address, f.AddressFrom))
	}
	if _, err := f.check(); err != nil {
		return Found{}, f.blame(err)
	}
	return f, nil
}

// takeToken takes the layer's token, if it has one.
func (s Search) takeToken(f *Found, l layer, readFile func(string) ([]byte, error)) error {
	file := l.tokenFile
	switch {
	case l.token != "":
		f.Token, f.TokenFrom = Token(strings.TrimSpace(l.token)), envToken
		return nil
	case file.Value == "":
		return nil
	}
	b, err := readFile(file.Value)
	if err != nil {
		return s.fail(FaultTokenFile, file.By, fmt.Errorf("cannot read the token named by %s: %w", file.By, err))
	}
	f.Token, f.TokenFrom = Token(strings.TrimSpace(string(b))), file.Value
	if f.Token == "" {
		return s.fail(FaultTokenFile, file.By, fmt.Errorf("the token file %s (named by %s) is empty", file.Value, file.By))
	}
	return nil
}
