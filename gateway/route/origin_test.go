// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"strings"
	"testing"
)

const (
	web     = "default--web.sandbox.localhost:17680"
	webAPI  = "default--web--api.sandbox.localhost:17680"
	evil    = "default--evil.sandbox.localhost:17680"
	gateway = "sandbox.localhost:17680"
)

func from(origin string) Ask { return Ask{Host: web, Origin: origin, HasOrigin: true} }

func TestSource(t *testing.T) {
	for _, tt := range []struct {
		ask  Ask
		want Source
	}{
		{Ask{Host: web}, NoPage},
		{Ask{Host: web, Site: "none"}, NoPage},
		{Ask{Host: web, Site: "same-origin"}, SamePage},
		{Ask{Host: web, Site: "same-site"}, Foreign},
		{Ask{Host: web, Site: "cross-site"}, Foreign},
		{Ask{Host: web, Site: "something new"}, Foreign},

		{from("http://" + web), SamePage},
		{from("https://" + web), SamePage}, // TLS may end before the gateway
		{from("HTTP://" + strings.ToUpper(web)), SamePage},
		{from("http://" + webAPI), Sibling},
		{from("http://" + evil), OtherSandbox},
		{from("https://" + evil), OtherSandbox},
		{from("http://other--web.sandbox.localhost:17680"), OtherSandbox},
		{from("http://nonsense.sandbox.localhost:17680"), OtherSandbox},
		{from("http://default--web.sandbox.localhost"), OtherSandbox},      // another port, another gateway
		{from("http://default--web.sandbox.localhost:8080"), OtherSandbox}, // the same
		{from("http://default--web--api.sandbox.localhost"), OtherSandbox},
		{from("http://" + gateway), Foreign},
		{from("http://127.0.0.1:17680"), Foreign},
		{from("http://localhost:5173"), Foreign},
		{from("https://example.com"), Foreign},
		{from("https://default--web.sandbox.localhost.example.com"), Foreign},
		{from("null"), Foreign},
		{from(""), Foreign},
		{from("ftp://" + web), Foreign},
		{from("http:" + web), Foreign},
		{from("http://" + web + "/"), Foreign},
		{from("http://" + web + ", http://" + web), OtherSandbox},
		{Ask{Host: web, Origin: "https://example.com", HasOrigin: true, Site: "same-origin"}, Foreign},

		{Ask{Host: "default--web.sandbox.localhost", Origin: "http://default--web.sandbox.localhost:80", HasOrigin: true}, SamePage},
		{Ask{Host: "default--web.sandbox.localhost:443", Origin: "https://default--web.sandbox.localhost", HasOrigin: true}, SamePage},
		{Ask{Host: "default--web--api.sandbox.localhost:80", Origin: "http://default--web.sandbox.localhost", HasOrigin: true}, Sibling},
		{Ask{Host: gateway, Origin: "http://" + gateway, HasOrigin: true}, SamePage},
		{Ask{Host: gateway, Origin: "http://" + web, HasOrigin: true}, OtherSandbox},
	} {
		if got := tt.ask.Source(domain); got != tt.want {
			t.Errorf("%+v comes from %v, want %v", tt.ask, got, tt.want)
		}
	}
}

// T22, T23: the whole rule, as docs/routing.md has it.
func TestAllows(t *testing.T) {
	safe, unsafe := []string{"GET", "HEAD", "OPTIONS"}, []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY", "PROPFIND", "get"}
	for _, tt := range []struct {
		name                                string
		ask                                 Ask
		read, change, socket                bool // of a service
		ownRead, ownNavigate, ownChangeElse bool // of the gateway's own host
	}{
		{"a tool", Ask{}, true, true, true, true, true, true},
		{"a person", Ask{Site: "none"}, true, true, true, true, true, true},
		{"its own page", Ask{Site: "same-origin"}, true, true, true, true, true, true},
		{"a link elsewhere", Ask{Site: "cross-site"}, true, false, false, false, true, false},
		{"a link of a neighbour", Ask{Site: "same-site"}, true, false, false, false, true, false},
		{"a foreign page", Ask{Origin: "https://example.com", HasOrigin: true}, true, false, false, false, false, false},
		{"an opaque page", Ask{Origin: "null", HasOrigin: true}, true, false, false, false, false, false},
		{"another sandbox", Ask{Origin: "http://" + evil, HasOrigin: true}, false, false, false, false, false, false},
	} {
		check := func(what string, got, want bool) {
			t.Helper()
			if got != want {
				t.Errorf("%s, %s: allowed %v, want %v", tt.name, what, got, want)
			}
		}
		ask := tt.ask
		ask.Host = web
		own := tt.ask
		own.Host = gateway
		for _, method := range safe {
			ask.Method, own.Method = method, method
			check(method, ask.ServiceAllows(domain), tt.read)
			own.Mode = ""
			check("own "+method, own.OwnAllows(domain), tt.ownRead)
			own.Mode = "navigate"
			check("own link "+method, own.OwnAllows(domain), tt.ownNavigate)
			socket := ask
			socket.Upgrade = true
			check("socket "+method, socket.ServiceAllows(domain), tt.socket)
		}
		for _, method := range unsafe {
			ask.Method, own.Method = method, method
			check(method, ask.ServiceAllows(domain), tt.change)
			check("own "+method, own.OwnAllows(domain), tt.ownChangeElse)
		}
	}
	sibling := Ask{Host: web, Origin: "http://" + webAPI, HasOrigin: true, Method: "POST", Upgrade: true}
	if !sibling.ServiceAllows(domain) {
		t.Error("a page of the same sandbox is refused")
	}
	if page := (Ask{Host: gateway, Origin: "http://" + gateway, HasOrigin: true, Method: "POST"}); !page.OwnAllows(domain) {
		t.Error("the gateway's own page is refused")
	}
}
