// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import "strings"

// Ask is what a browser says of a request that it is asked to let through.
type Ask struct {
	// Method is the request's, or that which a preflight asks for.
	Method string
	// Upgrade says that the request wants another protocol, as a WebSocket does.
	Upgrade bool
	// Host is the header Host.
	Host string
	// Origin is the header Origin, if HasOrigin.
	Origin    string
	HasOrigin bool
	// Site and Mode are Sec-Fetch-Site and Sec-Fetch-Mode; empty if absent.
	Site, Mode string
}

// Source is whose page made a browser send a request.
type Source uint8

// The sources.
const (
	// NoPage: no browser, or a person who typed the address.
	NoPage Source = iota
	// SamePage is a page of the very host that is asked.
	SamePage
	// Sibling is a page of another service of the same sandbox.
	Sibling
	// OtherSandbox is a page of another sandbox.
	OtherSandbox
	// Foreign is a page of somebody else, or one that does not say of whom.
	Foreign
)

// Source says whose page a request comes from.
func (a Ask) Source(domain string) Source {
	if !a.HasOrigin {
		switch a.Site {
		case "", "none":
			return NoPage
		case "same-origin":
			return SamePage
		}
		return Foreign
	}
	scheme, host, ok := strings.Cut(strings.ToLower(a.Origin), "://")
	if !ok || scheme != "http" && scheme != "https" {
		return Foreign
	}
	asked := strings.ToLower(a.Host)
	if plainHost(scheme, host) == plainHost(scheme, asked) {
		return SamePage
	}
	page, place := ParseHost(host, domain)
	if place == Own {
		return Foreign
	}
	_, port := splitPort(plainHost(scheme, host))
	_, askedPort := splitPort(plainHost(scheme, asked))
	if target, at := ParseHost(asked, domain); place == Service && at == Service && target.sameSandbox(page) && port == askedPort {
		return Sibling
	}
	return OtherSandbox
}

// plainHost drops a port that the scheme implies.
func plainHost(scheme, host string) string {
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// safe reports whether the request is one that changes nothing.
func (a Ask) safe() bool {
	return !a.Upgrade && (a.Method == "GET" || a.Method == "HEAD" || a.Method == "OPTIONS")
}

// ServiceAllows reports whether a service may be asked so. Pages of its own
// sandbox may do everything, pages of other sandboxes nothing, and all others
// may ask but not change: what they get to see the service decides.
func (a Ask) ServiceAllows(domain string) bool {
	switch a.Source(domain) {
	case NoPage, SamePage, Sibling:
		return true
	case Foreign:
		return a.safe()
	default:
		return false
	}
}

// OwnAllows reports whether the gateway's own pages may be asked so: only from
// themselves, or by following a link.
func (a Ask) OwnAllows(domain string) bool {
	switch a.Source(domain) {
	case NoPage, SamePage:
		return true
	case Foreign:
		return !a.HasOrigin && a.safe() && a.Mode == "navigate"
	default:
		return false
	}
}
