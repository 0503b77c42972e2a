// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// address is a parsed Options.Address.
type address struct {
	host   string // without brackets
	port   string
	secure bool
}

func (a address) hostPort() string { return net.JoinHostPort(a.host, a.port) }

// loopback reports whether the host is this machine by its spelling alone; no
// name is looked up.
func (a address) loopback() bool {
	if a.host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(a.host)
	return err == nil && ip.IsLoopback()
}

var (
	errAddressForm = errors.New(`must be "https://HOST:PORT", or "http://HOST:PORT" on this machine`)
	errAddressPort = errors.New("port must be a number from 1 to 65535")
	errAddressMore = errors.New("must end after the port: no user, path, query or fragment")
)

// parseAddress reads "https://HOST[:PORT]" or "http://HOST[:PORT]"; without a
// port it is 443 or 80. Its errors do not repeat the input.
func parseAddress(s string) (address, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return address{}, errAddressForm
	}
	a := address{host: u.Hostname(), port: u.Port()}
	switch u.Scheme {
	case "https":
		a.secure = true
	case "http":
	default:
		return address{}, errAddressForm
	}
	if u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return address{}, errAddressMore
	}
	if a.port == "" {
		a.port = map[bool]string{true: "443", false: "80"}[a.secure]
	}
	if n, err := strconv.ParseUint(a.port, 10, 16); err != nil || n == 0 {
		return address{}, errAddressPort
	}
	return a, nil
}
