// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzOrigin: a page counts as one of the sandbox that is asked only if its
// origin is a host of that very sandbox, however it is spelt.
func FuzzOrigin(f *testing.F) {
	for _, host := range []string{"default--web.sandbox.localhost", "default--web--api.sandbox.localhost:8080", "sandbox.localhost", "localhost:80"} {
		for _, origin := range []string{
			"", "null", "http://", "http://default--web.sandbox.localhost", "https://default--web--api.sandbox.localhost:443", "http://default--web--api.sandbox.localhost:8080",
			"http://default--other.sandbox.localhost", "http://sandbox.localhost", "http://evil.example", "http://default--web.sandbox.localhost@evil.example",
			"http://default--web.sandbox.localhost.evil.example", "ftp://default--web.sandbox.localhost", "HTTP://DEFAULT--WEB.SANDBOX.LOCALHOST", "http://[::1]:80",
		} {
			f.Add(host, origin, true, "cross-site", "GET")
		}
	}
	f.Add("default--web.sandbox.localhost", "", false, "", "POST")
	f.Add("default--web.sandbox.localhost", "", false, "same-origin", "POST")
	f.Fuzz(func(t *testing.T, host, origin string, has bool, site, method string) {
		a := Ask{Method: method, Host: host, Origin: origin, HasOrigin: has, Site: site, Mode: "cors"}
		source := a.Source(domain)
		if has && (source == SamePage || source == Sibling) {
			scheme, page, _ := strings.Cut(strings.ToLower(origin), "://")
			if scheme != "http" && scheme != "https" {
				t.Fatalf("%q may ask %q", origin, host)
			}
			here, at := ParseHost(strings.ToLower(host), domain)
			from, place := ParseHost(page, domain)
			same := plainHost(scheme, page) == plainHost(scheme, strings.ToLower(host))
			if !same && (at != Service || place != Service || from.Workspace != here.Workspace || from.Sandbox != here.Sandbox) {
				t.Fatalf("%q may ask %q as %d", origin, host, source)
			}
		}
		unsafe := method != "GET" && method != "HEAD" && method != "OPTIONS"
		if has && source != SamePage && a.OwnAllows(domain) || unsafe && (source == Foreign || source == OtherSandbox) && a.ServiceAllows(domain) {
			t.Fatalf("%q may %s %q", origin, method, host)
		}
	})
}

// FuzzStrip: no credential of the gateway reaches a service, whatever else
// stands beside it, and what is the application's stays as it was.
func FuzzStrip(f *testing.F) {
	const token = "the-admin-token"
	for _, authorization := range []string{"", "Bearer " + token, "bearer  " + token + " ", "BEARER\t" + token, "Basic " + token, "Bearer other", token} {
		for _, cookie := range []string{"", "a=b", "sandbox-gateway-session=x", "a=b; sandbox-gateway-session=x", "__Host-sandbox-gateway-session=x;a=b", ";;a=b;", "a=sandbox-gateway-x", " __Secure-sandbox-gateway-x=1"} {
			f.Add(authorization, cookie)
		}
	}
	f.Fuzz(func(t *testing.T, authorization, cookie string) {
		h := http.Header{"Authorization": {authorization}, "Cookie": {cookie}, "X-Other": {"x"}}
		strip(h, func(s string) bool { return s == token })
		for _, value := range h["Authorization"] {
			if fields := strings.Fields(value); len(fields) == 2 && strings.EqualFold(fields[0], "bearer") && fields[1] == token {
				t.Fatalf("%q reaches the service", value)
			}
		}
		request := http.Request{Header: h}
		for _, c := range request.Cookies() {
			if ownCookie(c.Name) {
				t.Fatalf("of %q the cookie %q reaches the service", cookie, c.Name)
			}
		}
		before := http.Request{Header: http.Header{"Cookie": {cookie}}}
		kept := map[string]int{}
		for _, c := range request.Cookies() {
			kept[c.Name+"="+c.Value]++
		}
		for _, c := range before.Cookies() {
			if kept[c.Name+"="+c.Value]--; !ownCookie(c.Name) && kept[c.Name+"="+c.Value] < 0 {
				t.Fatalf("of %q the application's cookie %q is gone: %q", cookie, c.Name, h["Cookie"])
			}
		}
		if h.Get("X-Other") != "x" {
			t.Fatal("another header is gone")
		}
	})
}

// FuzzLocation: a redirect of a service leads where the service said, and only
// its own address is replaced.
func FuzzLocation(f *testing.F) {
	for _, location := range []string{
		"", "/", "/next", "http://localhost:8080/next", "https://LOCALHOST:8080?x", "http://127.0.0.1:8080", "http://[::1]:8080/#x", "http://localhost:80800/", "http://localhost:8080.evil.example/",
		"http://localhost:8080@evil.example/", "//localhost:8080/", "http://evil.example/http://localhost:8080/", "://", "http://localhost:8080\\evil.example",
	} {
		f.Add(location)
	}
	const public = "http://default--web.sandbox.localhost:17680"
	f.Fuzz(func(t *testing.T, location string) {
		h := http.Header{"Location": {location}}
		publicLocation(h, ":8080", public)
		got := h.Get("Location")
		if got == location {
			return
		}
		path, ok := strings.CutPrefix(got, public)
		if !ok || path != "" && !strings.ContainsRune("/?#", rune(path[0])) || !strings.HasSuffix(location, path) {
			t.Fatalf("%q has become %q", location, got)
		}
	})
}
