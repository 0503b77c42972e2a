// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import "strings"

// maxName is the longest name of a workspace, sandbox or service.
const maxName = 28

// Name names a service. The empty Service is the unnamed one.
type Name struct{ Workspace, Sandbox, Service string }

// sameSandbox reports whether two services are of one sandbox.
func (n Name) sameSandbox(o Name) bool { return n.Workspace == o.Workspace && n.Sandbox == o.Sandbox }

// Place is where a host name leads.
type Place uint8

// The places.
const (
	// Own is the gateway itself: every host that is not below the routing
	// domain.
	Own Place = iota
	// Service is a service of a sandbox.
	Service
	// Nowhere is a host below the routing domain that is no name of a service.
	Nowhere
)

// ParseHost says where a host leads, given as in the header Host: with or
// without a port, in any case. domain is in lower case.
func ParseHost(host, domain string) (Name, Place) {
	name, _ := splitPort(strings.ToLower(host))
	label, below := strings.CutSuffix(strings.TrimSuffix(name, "."), "."+domain)
	if !below {
		return Name{}, Own
	}
	parts := strings.Split(label, "--")
	if len(parts) != 2 && len(parts) != 3 {
		return Name{}, Nowhere
	}
	for _, p := range parts {
		if !validName(p) {
			return Name{}, Nowhere
		}
	}
	n := Name{Workspace: parts[0], Sandbox: parts[1]}
	if len(parts) == 3 {
		n.Service = parts[2]
	}
	return n, Service
}

// splitPort cuts the port off, if there is one; it is returned with its colon.
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.Trim(host[i+1:], "0123456789") != "" {
		return host, ""
	}
	return host[:i], host[i:]
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && s[0] != '-' && s[len(s)-1] != '-' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.Contains(s, "--")
}
