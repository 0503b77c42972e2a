// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"net/http"
	"reflect"
	"testing"
)

func TestForward(t *testing.T) {
	for _, tt := range []struct{ client, host, proto, forwardedFor, forwarded string }{
		{"192.0.2.1", web, "http", "192.0.2.1", `for=192.0.2.1;host="` + web + `";proto=http`},
		{"2001:db8::1", "h", "https", "2001:db8::1", `for="[2001:db8::1]";host="h";proto=https`},
		{"", `a"\`, "http", "", `for=unknown;host="a\"\\";proto=http`},
	} {
		h := http.Header{
			"Forwarded": {"for=1.1.1.1"}, "X-Forwarded-For": {"1.1.1.1"}, "X-Forwarded-Host": {"evil"},
			"X-Forwarded-Prefix": {"/evil"}, "X-Forwarded-Ssl": {"on"}, "X_forwarded_for": {"1.1.1.1"}, "X-Forwarded_proto": {"https"}, "X-Other": {"stays"},
		}
		forward(h, tt.client, tt.host, tt.proto)
		want := http.Header{
			"Forwarded": {tt.forwarded}, "X-Forwarded-Host": {tt.host}, "X-Forwarded-Proto": {tt.proto}, "X-Other": {"stays"},
		}
		if tt.forwardedFor != "" {
			want["X-Forwarded-For"] = []string{tt.forwardedFor}
		}
		if !reflect.DeepEqual(h, want) {
			t.Errorf("%v", h)
		}
	}
}

// T22: the origin of the service's own pages is rewritten, and no other.
func TestLocalOrigin(t *testing.T) {
	const up = "localhost:5173"
	for _, tt := range []struct{ origin, referer, wantOrigin, wantReferer string }{
		{"", "", "", ""},
		{"http://" + web, "http://" + web + "/a?b#c", "http://localhost:5173", "http://localhost:5173/a?b#c"},
		{"https://" + web, "https://" + web, "http://localhost:5173", "http://localhost:5173"},
		{"http://" + webAPI, "http://" + webAPI + "/", "http://" + webAPI, "http://" + webAPI + "/"},
		{"https://example.com", "https://example.com/", "https://example.com", "https://example.com/"},
		{"null", "http://" + web + "1/", "null", "http://" + web + "1/"},
	} {
		h := http.Header{}
		if tt.origin != "" {
			h.Set("Origin", tt.origin)
		}
		if tt.referer != "" {
			h.Set("Referer", tt.referer)
		}
		ask := Ask{Host: web, Origin: tt.origin, HasOrigin: tt.origin != "", Site: "same-origin"}
		localOrigin(h, up, ask.Source(domain), web)
		if h.Get("Origin") != tt.wantOrigin || h.Get("Referer") != tt.wantReferer || len(h["Origin"]) > 0 != (tt.origin != "") {
			t.Errorf("%+v: %v", tt, h)
		}
	}
}

func TestPublicLocation(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"/login":                      "/login",
		"login?next=1":                "login?next=1",
		"http://localhost:5173/a?b":   "http://" + web + "/a?b",
		"https://LOCALHOST:5173":      "http://" + web,
		"http://127.0.0.1:5173/":      "http://" + web + "/",
		"http://[::1]:5173#x":         "http://" + web + "#x",
		"http://localhost:51730/":     "http://localhost:51730/",
		"http://localhost:80/":        "http://localhost:80/",
		"http://localhost:5173.evil/": "http://localhost:5173.evil/",
		"http://localhost:5173@evil/": "http://localhost:5173@evil/",
		"https://example.com/":        "https://example.com/",
	} {
		h := http.Header{}
		if in != "" {
			h.Set("Location", in)
		}
		publicLocation(h, ":5173", "http://"+web)
		if got := h.Get("Location"); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// T23: what is the gateway's stays with it, what is the application's passes
// untouched.
func TestStrip(t *testing.T) {
	isAdmin := func(token string) bool { return token == "admin" }
	for _, tt := range []struct{ header, want http.Header }{
		{http.Header{}, http.Header{}},
		{http.Header{"Authorization": {"Bearer admin"}}, http.Header{}},
		{http.Header{"Authorization": {"bearer  admin "}}, http.Header{}},
		{http.Header{"Authorization": {"Bearer app"}}, http.Header{"Authorization": {"Bearer app"}}},
		{http.Header{"Authorization": {"Basic admin", "Bearer admin", "Bearer x"}}, http.Header{"Authorization": {"Basic admin", "Bearer x"}}},
		{http.Header{"Cookie": {"a=1;  b=2", "c"}}, http.Header{"Cookie": {"a=1;  b=2", "c"}}},
		{http.Header{"Cookie": {"a=1; sandbox-gateway-session=s; b=sandbox-gateway-"}}, http.Header{"Cookie": {"a=1; b=sandbox-gateway-"}}},
		{http.Header{"Cookie": {"__Host-sandbox-gateway-x=1", "__Secure-sandbox-gateway-y=1", "z=1"}}, http.Header{"Cookie": {"z=1"}}},
	} {
		strip(tt.header, isAdmin)
		if !reflect.DeepEqual(tt.header, tt.want) {
			t.Errorf("%v, want %v", tt.header, tt.want)
		}
	}
}
