// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// clientFile is client.json. Its file names are relative to its directory.
type clientFile struct {
	API       string `json:"api"`
	CAFile    string `json:"ca_file"`
	TokenFile string `json:"token_file"`
}

// parseClientFile reads client.json; fields that it does not know are for
// others.
func parseClientFile(b []byte) (clientFile, error) {
	var c clientFile
	if err := json.Unmarshal(b, &c); err != nil {
		return clientFile{}, fmt.Errorf("is not what a gateway writes: %w", err)
	}
	if c.API == "" {
		return clientFile{}, errors.New(`is not what a gateway writes: it has no "api"`)
	}
	return c, nil
}

// localLayer reads client.json of the state directory.
func localLayer(s sources) (layer, error) {
	none := layer{local: true}
	dir, err := stateDir(s)
	if err != nil {
		return none, err
	}
	name := filepath.Join(dir, "client.json")
	b, err := s.readFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, &failure{err: fmt.Errorf("no gateway found in %s: start one with `sandbox-gateway serve`, or name it with --gateway", dir)}
	case errors.Is(err, fs.ErrPermission):
		return none, &failure{err: err, next: "The gateway there belongs to another user: work as that user, or name it with --gateway, --ca-file and --token-file."}
	case err != nil:
		return none, &failure{err: err, next: "Name the gateway with --gateway."}
	}
	c, err := parseClientFile(b)
	if err != nil {
		return none, &failure{err: fmt.Errorf("%s: %w", name, err), next: "Start the gateway again, or name it with --gateway."}
	}
	l := layer{local: true, gateway: c.API, gatewayFrom: name, caFrom: name, tokenFileFrom: name}
	if c.CAFile != "" {
		l.caFile = within(dir, c.CAFile)
	}
	if c.TokenFile != "" {
		l.tokenFile = within(dir, c.TokenFile)
	}
	return l, nil
}

func within(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// stateDir is where a gateway of this machine keeps its state.
func stateDir(s sources) (string, error) {
	switch {
	case s.flags.stateDir.value != "":
		return s.flags.stateDir.value, nil
	case s.env["SANDBOX_GATEWAY_STATE_DIR"] != "":
		return s.env["SANDBOX_GATEWAY_STATE_DIR"], nil
	case s.euid == 0:
		return "/var/lib/sandbox-gateway", nil
	case s.env["XDG_STATE_HOME"] != "":
		return filepath.Join(s.env["XDG_STATE_HOME"], "sandbox-gateway"), nil
	case s.env["HOME"] != "":
		return filepath.Join(s.env["HOME"], ".local", "state", "sandbox-gateway"), nil
	}
	return "", &failure{err: errors.New("no gateway is named, and without HOME there is no place to look for one: name it with --gateway")}
}

// smallFile bounds the files that are read: all of them fit in a page or two.
const smallFile = 64 << 10

// readSmall reads a file, or a pipe, of at most smallFile bytes.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(f, smallFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > smallFile {
		return nil, fmt.Errorf("%s: is larger than %d KiB", name, smallFile>>10)
	}
	return b, nil
}
