// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"strings"
	"testing"
)

const domain = "sandbox.localhost"

var hosts = []struct {
	host  string
	name  Name
	place Place
}{
	{"default--web.sandbox.localhost", Name{"default", "web", ""}, Service},
	{"default--web.sandbox.localhost:17680", Name{"default", "web", ""}, Service},
	{"default--web.sandbox.localhost:", Name{"default", "web", ""}, Service},
	{"default--web.sandbox.localhost.", Name{"default", "web", ""}, Service},
	{"default--web.sandbox.localhost.:80", Name{"default", "web", ""}, Service},
	{"Default--WEB--Docs.Sandbox.LOCALHOST", Name{"default", "web", "docs"}, Service},
	{"team-1--my-box--my-api.sandbox.localhost", Name{"team-1", "my-box", "my-api"}, Service},
	{"xn--web.sandbox.localhost", Name{"xn", "web", ""}, Service},
	{"0--1--2.sandbox.localhost", Name{"0", "1", "2"}, Service},
	{strings.Repeat("a", 28) + "--b.sandbox.localhost", Name{strings.Repeat("a", 28), "b", ""}, Service},

	{"", Name{}, Own},
	{":80", Name{}, Own},
	{"localhost", Name{}, Own},
	{"127.0.0.1:17680", Name{}, Own},
	{"[::1]:17680", Name{}, Own},
	{"sandbox.localhost", Name{}, Own},
	{"sandbox.localhost:17680", Name{}, Own},
	{"default--web.example.com", Name{}, Own},
	{"default--websandbox.localhost", Name{}, Own},
	{"default--web.sandbox.localhost.example.com", Name{}, Own},
	{"default--web.sandbox.localhost..", Name{}, Own},

	{".sandbox.localhost", Name{}, Nowhere},
	{"web.sandbox.localhost", Name{}, Nowhere},
	{"default-web.sandbox.localhost", Name{}, Nowhere},
	{"a.default--web.sandbox.localhost", Name{}, Nowhere},
	{"default--web..sandbox.localhost", Name{}, Nowhere},
	{"default---web.sandbox.localhost", Name{}, Nowhere},
	{"-default--web.sandbox.localhost", Name{}, Nowhere},
	{"default--web-.sandbox.localhost", Name{}, Nowhere},
	{"--web.sandbox.localhost", Name{}, Nowhere},
	{"default--.sandbox.localhost", Name{}, Nowhere},
	{"default--web--.sandbox.localhost", Name{}, Nowhere},
	{"a--b--c--d.sandbox.localhost", Name{}, Nowhere},
	{"default--we_b.sandbox.localhost", Name{}, Nowhere},
	{"default--wéb.sandbox.localhost", Name{}, Nowhere},
	{"default--web%2e.sandbox.localhost", Name{}, Nowhere},
	{"default--web\x00.sandbox.localhost", Name{}, Nowhere},
	{"user@default--web.sandbox.localhost", Name{}, Nowhere},
	{strings.Repeat("a", 29) + "--b.sandbox.localhost", Name{}, Nowhere},
}

func TestParseHost(t *testing.T) {
	for _, tt := range hosts {
		if name, place := ParseHost(tt.host, domain); name != tt.name || place != tt.place {
			t.Errorf("ParseHost(%q) = %+v, %v, want %+v, %v", tt.host, name, place, tt.name, tt.place)
		}
	}
}

// FuzzHost: what is let through is a name that the gateway itself could have
// made a URL of, whatever the host was.
func FuzzHost(f *testing.F) {
	for _, tt := range hosts {
		f.Add(tt.host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, place := ParseHost(host, domain)
		if place != Service {
			if name != (Name{}) {
				t.Fatalf("%q leads to %+v and is no service", host, name)
			}
			return
		}
		canonical := name.Workspace + "--" + name.Sandbox
		if name.Service != "" {
			canonical += "--" + name.Service
		}
		canonical += "." + domain
		if again, at := ParseHost(canonical, domain); again != name || at != Service {
			t.Fatalf("%q is %+v, whose own host %q is %+v, %v", host, name, canonical, again, at)
		}
		plain, _ := splitPort(strings.ToLower(host))
		if strings.TrimSuffix(plain, ".") != canonical {
			t.Fatalf("%q leads to %q", host, canonical)
		}
		for _, c := range []byte(canonical) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q is let through", canonical)
			}
		}
	})
}
