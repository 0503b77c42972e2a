// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// allowed reports whether a request may be answered: it comes from the page
// itself, from no page, or it follows a link to the page.
func allowed(r *http.Request) bool {
	if origins := r.Header["Origin"]; len(origins) > 1 || len(origins) == 1 && !ownOrigin(origins[0], r.Host) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// ownOrigin reports whether an origin is that of the host asked. The scheme is
// left to whoever ends TLS in front of the gateway.
func ownOrigin(origin, host string) bool {
	scheme, of, ok := strings.Cut(strings.ToLower(origin), "://")
	if !ok || scheme != "http" && scheme != "https" {
		return false
	}
	standard := map[string]string{"http": ":80", "https": ":443"}[scheme]
	return strings.TrimSuffix(of, standard) == strings.TrimSuffix(strings.ToLower(host), standard)
}

// proxied are headers by which whoever passes a request on says so.
var proxied = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// local reports whether a request was sent on this host, to this host, by a
// name that only this host has: a name of anybody else that leads to the
// loopback is none.
func local(r *http.Request) bool {
	for _, h := range proxied {
		if len(r.Header[h]) > 0 {
			return false
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback() && loopbackHost(r.Host)
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	switch strings.ToLower(host) {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	return false
}
