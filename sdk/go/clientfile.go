// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sandbox-agent/sandbox-agent/internal/statedir"
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

// localLayer reads client.json of the state directory. Its layer has an
// address, or there is an error.
func (s Search) localLayer(readFile func(name string) ([]byte, error)) (layer, error) {
	none := layer{local: true}
	dir := s.stateDir()
	if dir == "" {
		return none, s.fail(FaultNoGateway, "", errors.New("no gateway is named, and without HOME there is no place to look for one"))
	}
	name := filepath.Join(dir, "client.json")
	b, err := readFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, s.fail(FaultNoGateway, dir, fmt.Errorf("no gateway found in %s", dir))
	case err != nil:
		return none, s.fail(FaultClientFile, name, err)
	}
	c, err := parseClientFile(b)
	if err != nil {
		return none, s.fail(FaultClientContent, name, fmt.Errorf("%s: %w", name, err))
	}
	return layer{
		local:     true,
		address:   Named{Value: c.API, By: name},
		tokenFile: Named{Value: within(dir, c.TokenFile), By: name},
		caFile:    Named{Value: within(dir, c.CAFile), By: name},
	}, nil
}

// within is the file of a directory; no name is no file.
func within(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// stateDir is where a gateway of this machine keeps its state; empty is
// nowhere.
func (s Search) stateDir() string {
	switch {
	case s.StateDir != "":
		return s.StateDir
	case s.env("SANDBOX_GATEWAY_STATE_DIR") != "":
		return s.env("SANDBOX_GATEWAY_STATE_DIR")
	case s.Root:
		return statedir.System
	}
	return statedir.OfUser(s.env)
}
