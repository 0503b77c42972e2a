// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

// DiscoveryFault says what is wrong with a source.
type DiscoveryFault int

// What keeps a gateway from being found.
const (
	// FaultNoGateway: none is named, and none keeps its state in the directory
	// Source, which is empty if there is no place to look.
	FaultNoGateway DiscoveryFault = iota + 1
	// FaultNoToken: Source names a gateway, and nothing a token for it.
	FaultNoToken
	// FaultClientFile: the client.json Source cannot be read.
	FaultClientFile
	// FaultClientContent: the client.json Source is not what a gateway writes.
	FaultClientContent
	// FaultTokenFile: the token file that Source names cannot be read, or is
	// empty.
	FaultTokenFile
	// FaultValue: the address or the authority's file that Source names, or the
	// token that it holds, cannot be used.
	FaultValue
)

// DiscoveryError says why no gateway, or no token for it, was found, and which
// source is at fault.
type DiscoveryError struct {
	Fault  DiscoveryFault
	Source string // a variable of the environment, a file, a directory, or a Named's By
	Err    error  // what is wrong, in words that name the source
	hint   string // what helps, for Error
}

// Error shows what is wrong, with unprintable characters quoted, and what
// helps.
func (e *DiscoveryError) Error() string { return "sandbox: " + printable(e.Err.Error()) + e.hint }

// Unwrap returns Err, so that a file's fs.ErrPermission is found.
func (e *DiscoveryError) Unwrap() error { return e.Err }

// fail makes the search's error. The environment is no help where nobody looks
// into it.
func (s Search) fail(fault DiscoveryFault, source string, err error) error {
	e := &DiscoveryError{Fault: fault, Source: source, Err: err}
	environment := s.Env != nil
	switch {
	case fault == FaultNoToken && environment:
		e.hint = ": name a file that holds it with SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN"
	case fault != FaultNoGateway:
	case source == "" && environment:
		e.hint = ": name it with SANDBOX_GATEWAY"
	case environment:
		e.hint = ": start one with `sandbox-gateway serve`, or name it with SANDBOX_GATEWAY"
	default:
		e.hint = ": start one with `sandbox-gateway serve`"
	}
	return e
}
