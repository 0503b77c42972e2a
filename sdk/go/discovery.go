// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Discover finds a gateway as sandboxctl does: the one that the environment
// names (SANDBOX_GATEWAY, SANDBOX_TOKEN or SANDBOX_TOKEN_FILE,
// SANDBOX_CA_FILE), else the one of this machine, which says in the file
// client.json of its state directory how to reach it. The directory is
// SANDBOX_GATEWAY_STATE_DIR, /var/lib/sandbox-gateway for root, sandbox-gateway
// in XDG_STATE_HOME, or ~/.local/state/sandbox-gateway.
//
// What client.json says of token and authority counts for its own address
// only, so that no other gateway is sent the token of this machine's.
//
// It reads the token, but connects to nothing; Dial reads the authority's
// file. Errors: *DiscoveryError.
func Discover() (Options, error) {
	found, err := Search{Env: os.Getenv, Root: os.Geteuid() == 0}.Find()
	return found.Options, err
}

// FromStateDir finds the gateway whose state directory dir is, whatever the
// environment says. Errors: *DiscoveryError.
func FromStateDir(dir string) (Options, error) {
	found, err := Search{StateDir: filepath.Clean(dir)}.Find()
	return found.Options, err
}

// Search is Discover for a program that can be told of a gateway in other ways
// too, by flags for example. They go before the environment. sandboxctl is made
// of it.
type Search struct {
	Address   Named
	TokenFile Named
	CAFile    Named

	// StateDir is a state directory that the program was told. Its client.json
	// goes before the environment, and has to be there unless Address is set.
	StateDir string

	// NoToken leaves the token out, for a program that needs none: Health.
	NoToken bool

	// Env looks into the environment, as os.Getenv does; nil is an empty one.
	Env func(name string) string

	// Root says that the program runs as root.
	Root bool
}

// Named is a value and what named it, as the program's user knows it:
// "--gateway". An empty value names nothing.
type Named struct{ Value, By string }

// Found is a gateway, and what named it: a Named's By, a variable of the
// environment, or a file. TokenFrom is the file that holds the token, or
// SANDBOX_TOKEN. Each is empty where there is nothing.
type Found struct {
	Options
	AddressFrom string
	TokenFrom   string
	CAFileFrom  string
}

// Find looks for a gateway. The form of the address and of the token are right
// in what it returns. Errors: *DiscoveryError.
func (s Search) Find() (Found, error) { return s.find(readSmall) }

// Dial is Dial with the Options. A value among them that cannot be used is a
// *DiscoveryError, which says what named it.
func (f Found) Dial(ctx context.Context) (*Client, error) {
	c, err := Dial(ctx, f.Options)
	return c, f.blame(err)
}

// blame says what named the value that cannot be used.
func (f Found) blame(err error) error {
	wrong, ok := errors.AsType[*OptionError](err)
	if !ok {
		return err
	}
	source := map[string]string{"Address": f.AddressFrom, "Token": f.TokenFrom, "CAFile": f.CAFileFrom}[wrong.Field]
	if source == "" { // the program's own
		return err
	}
	value := source
	if wrong.Field == "Token" { // a file's content, not the file
		value = "the token from " + source
	}
	return &DiscoveryError{Fault: FaultValue, Source: source, Err: fmt.Errorf("%s: %w", value, wrong.Err)}
}

// smallFile bounds a token and a client.json, which fit in a page or two;
// authoritiesFile a file of authorities, of which a system has some hundred.
const (
	smallFile       = 64 << 10
	authoritiesFile = 1 << 20
)

// readSmall reads a file, or a pipe, of at most smallFile bytes.
func readSmall(name string) ([]byte, error) { return readBounded(name, smallFile) }

// readBounded reads a file, or a pipe, of at most so many bytes.
func readBounded(name string, most int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, fmt.Errorf("%s: is larger than %d KiB", name, most>>10)
	}
	return b, nil
}
