// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

func TestRequests(t *testing.T) {
	const (
		cross = "Sec-Fetch-Site: cross-site"
		nav   = "Sec-Fetch-Mode: navigate"
		doc   = "Sec-Fetch-Dest: document"
	)
	for _, c := range []struct {
		method, path string
		lines        []string
		want         int
	}{
		{"GET", "/", nil, 200},
		{"HEAD", "/", nil, 200},
		{"POST", "/", nil, 405},
		{"GET", "/page/main.js", nil, 200},
		{"GET", "/page/main.js", []string{"Sec-Fetch-Site: same-origin", "Origin: http://localhost:17680"}, 200},
		{"PUT", "/page/main.js", nil, 405},
		{"GET", "/page/", nil, 404},
		{"GET", "/page/nothing.js", nil, 404},
		{"GET", "/page/a/main.js", nil, 404},
		{"GET", "/page/../main.js", nil, 404},
		{"GET", "/page", nil, 418},
		{"GET", "/pages/main.js", nil, 418},
		{"GET", "/livez", nil, 418},
		{"GET", "/page/session", nil, 200},
		{"PUT", "/page/session", nil, 405},
		{"GET", "/page/events", nil, 200},
		{"HEAD", "/page/events", nil, 405},

		// A link from elsewhere shows the page, and nothing else.
		{"GET", "/", []string{cross, nav, doc}, 200},
		{"GET", "/", []string{cross, nav, "Sec-Fetch-Dest: iframe"}, 403},
		{"GET", "/", []string{cross, "Sec-Fetch-Mode: no-cors", doc}, 403},
		{"POST", "/", []string{cross, nav, doc}, 403},
		{"GET", "/page/events", []string{cross, nav, doc}, 403},
		{"GET", "/page/main.js", []string{cross, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 403},
		{"GET", "/page/events", []string{cross}, 403},
		{"GET", "/page/events", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"GET", "/page/session", []string{cross}, 403},

		// Origins.
		{"GET", "/page/events", []string{"Origin: http://localhost:17680"}, 200},
		{"GET", "/page/events", []string{"Origin: HTTP://LOCALHOST:17680"}, 200},
		{"GET", "/page/events", []string{"Origin: http://localhost:17681"}, 403},
		{"GET", "/page/events", []string{"Origin: http://localhost"}, 403},
		{"GET", "/page/events", []string{"Origin: http://default--web.sandbox.localhost:17680"}, 403},
		{"GET", "/page/events", []string{"Origin: null"}, 403},
		{"GET", "/page/events", []string{"Origin: "}, 403},
		{"GET", "/page/events", []string{"Origin: ftp://localhost:17680"}, 403},
		{"GET", "/page/events", []string{"Origin: http://localhost:17680", "Origin: http://localhost:17680"}, 403},
		{"GET", "/page/session", []string{"Host: gw.example", "Origin: https://gw.example:443", "Sec-Fetch-Site: same-origin"}, 401},
	} {
		w := newWorld(onLoopback)
		if got := w.ask(request(c.method, c.path, "", c.lines...)); got.Code != c.want {
			t.Errorf("%s %s %q: %d, want %d", c.method, c.path, c.lines, got.Code, c.want)
		}
	}
}

// Who sees events without a cookie: whoever is on this host, and asks by a name
// of this host.
func TestLoopback(t *testing.T) {
	for _, c := range []struct {
		name     string
		loopback bool
		lines    []string
		want     int
	}{
		{"localhost", true, nil, 200},
		{"its address", true, []string{"Host: 127.0.0.1:17680"}, 200},
		{"IPv6", true, []string{"Host: [::1]:17680", "From: [::1]:1"}, 200},
		{"IPv6 without a port", true, []string{"Host: [::1]"}, 200},
		{"IPv4 in IPv6", true, []string{"From: [::ffff:127.0.0.1]:1"}, 200},
		{"capitals", true, []string{"Host: LocalHost:17680"}, 200},
		{"a name that somebody else has led here", true, []string{"Host: rebound.example:17680"}, 401},
		{"the same, with its own origin", true, []string{"Host: rebound.example:17680", "Origin: http://rebound.example:17680"}, 401},
		{"a name that begins like ours", true, []string{"Host: localhost.example"}, 401},
		{"a name that ends like ours", true, []string{"Host: a.localhost"}, 401},
		{"no name", true, []string{"Host: "}, 401},
		{"another host", true, []string{"From: 192.0.2.1:1"}, 401},
		{"no address", true, []string{"From: @"}, 401},
		{"through a proxy", true, []string{"X-Forwarded-For: 192.0.2.1"}, 401},
		{"through a proxy that says so otherwise", true, []string{"Forwarded: for=192.0.2.1"}, 401},
		{"through a proxy of the standard", true, []string{"Via: 1.1 proxy"}, 401},
		{"a listener for all", false, nil, 401},
	} {
		w := newWorld(func(cfg *Config) { cfg.Loopback = c.loopback })
		if got := w.ask(request("GET", "/page/events", "", c.lines...)); got.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, got.Code, c.want)
		}
	}
}

// Every answer is protected, whatever it is.
func TestHeaders(t *testing.T) {
	for _, r := range []*http.Request{
		request("GET", "/", ""), request("GET", "/page/main.js", ""), request("GET", "/page/none", ""), request("GET", "/page/events", ""),
		request("GET", "/page/session", ""), request("POST", "/", ""), request("GET", "/page/events", "", "Origin: null"),
	} {
		h := newWorld().ask(r).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": `^default-src 'none'; script-src 'self'; style-src 'self'; .*frame-ancestors 'none'`,
			"X-Frame-Options":         "^DENY$", "X-Content-Type-Options": "^nosniff$", "Cache-Control": "^no-store$", "Referrer-Policy": "^no-referrer$",
			"Cross-Origin-Resource-Policy": "^same-origin$", "Cross-Origin-Opener-Policy": "^same-origin$",
			"Access-Control-Allow-Origin": "^$",
		} {
			if got := h.Get(name); !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s %s: %s is %q", r.Method, r.URL.Path, name, got)
			}
		}
	}
}

func TestSignIn(t *testing.T) {
	const from = "From: 192.0.2.1:1"
	w := newWorld()
	body := `{"token":"` + adminToken + `"}`
	for _, c := range []struct {
		name, body string
		lines      []string
		want       int
	}{
		{"wrong", `{"token":"wrong"}`, []string{"Content-Type: application/json"}, 401},
		{"empty", `{}`, []string{"Content-Type: application/json"}, 401},
		{"a form", "token=" + adminToken, []string{"Content-Type: application/x-www-form-urlencoded"}, 400},
		{"text, which another site's form can send", body, []string{"Content-Type: text/plain"}, 400},
		{"no type", body, nil, 400},
		{"no JSON", "{", []string{"Content-Type: application/json"}, 400},
		{"too long", `{"token":"` + strings.Repeat("a", maxSignIn) + `"}`, []string{"Content-Type: application/json"}, 400},
		{"another page", body, []string{"Content-Type: application/json", "Origin: http://evil.example"}, 403},
		{"right", body, []string{"Content-Type: application/json; charset=utf-8", "Origin: http://localhost:17680"}, 200},
	} {
		got := w.ask(request("POST", "/page/session", c.body, append(c.lines, from)...))
		if got.Code != c.want || (len(got.Result().Cookies()) == 1) != (c.want == 200) {
			t.Errorf("%s: %d and %d cookies, want %d", c.name, got.Code, len(got.Result().Cookies()), c.want)
		}
	}

	cookie := w.ask(request("POST", "/page/session", body, "Content-Type: application/json", from)).Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Domain != "" || cookie.Path != "/page/" ||
		cookie.MaxAge != 12*3600 || strings.Contains(cookie.Value, adminToken) {
		t.Errorf("the cookie is %v", cookie)
	}
	value := "Cookie: " + cookie.Name + "=" + cookie.Value
	e, mac, _ := strings.Cut(cookie.Value, ".")
	for _, c := range []struct {
		name  string
		lines []string
		after time.Duration
		want  int
	}{
		{"its own", []string{value}, 0, 200},
		{"at the end", []string{value}, SessionLifetime - time.Second, 200},
		{"after the end", []string{value}, SessionLifetime, 401},
		{"for another host", []string{value, "Host: localhost:17681"}, 0, 401},
		{"beside one that somebody else has set", []string{"Cookie: " + Cookie + "=x; " + cookie.Name + "=" + cookie.Value}, 0, 200},
		{"made longer", []string{"Cookie: " + Cookie + "=9" + cookie.Value}, 0, 401},
		{"without a signature", []string{"Cookie: " + Cookie + "=" + e + "."}, 0, 401},
		{"without an end", []string{"Cookie: " + Cookie + "=." + mac}, 0, 401},
		{"empty", []string{"Cookie: " + Cookie + "="}, 0, 401},
	} {
		w.now = w.now.Add(c.after)
		if got := w.ask(request("GET", "/page/events", "", append(c.lines, from)...)); got.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, got.Code, c.want)
		}
		w.now = w.now.Add(-c.after)
	}
	other := newWorld(func(cfg *Config) { cfg.Key = secret.New("another token") })
	if got := other.ask(request("GET", "/page/events", "", value, from)); got.Code != 401 {
		t.Errorf("after the token has changed: %d", got.Code)
	}
	gone := w.ask(request("DELETE", "/page/session", "", value, from)).Result()
	if gone.StatusCode != 204 || gone.Cookies()[0].MaxAge != -1 {
		t.Errorf("signing out: %d %v", gone.StatusCode, gone.Cookies())
	}
}

func TestSessionTellsOnlyViewersTheVersion(t *testing.T) {
	for lines, want := range map[string]string{
		"":                  `{"open":true,"signed_in":true,"version":"1.2.3"}`,
		"Host: gw.example":  `{"open":false,"signed_in":false,"version":""}`,
		"From: 192.0.2.1:1": `{"open":false,"signed_in":false,"version":""}`,
	} {
		if got := newWorld(onLoopback).ask(request("GET", "/page/session", "", lines)).Body.String(); strings.TrimSpace(got) != want {
			t.Errorf("%q: %s, want %s", lines, got, want)
		}
	}
}

// The page asks no other host, has no script or style in its text, and never
// makes markup of text; each file has a type, and is asked for by another.
func TestFiles(t *testing.T) {
	names, err := fs.Glob(static, "static/*")
	if err != nil || len(names) < 5 {
		t.Fatalf("%q %v", names, err)
	}
	var all strings.Builder
	for _, name := range names {
		b, err := fs.ReadFile(static, name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
		if got := newWorld().ask(request("GET", "/page/"+strings.TrimPrefix(name, "static/"), "")); got.Code != 200 || got.Header().Get("Content-Type") == "" || got.Body.String() != string(b) {
			t.Errorf("%s: %d %q", name, got.Code, got.Header().Get("Content-Type"))
		}
		for _, bad := range []string{
			`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function`, `@import|url\(`, `\son[a-z]+="`, `<style|style="`, `<script[^>]*>[^<]`,
		} {
			if found := regexp.MustCompile(bad).FindString(string(b)); found != "" {
				t.Errorf("%s has %q", name, found)
			}
		}
		for _, u := range regexp.MustCompile(`https?://[a-z][^"' ]*`).FindAllString(string(b), -1) {
			if !strings.HasPrefix(u, "http://www.w3.org/2000/svg") {
				t.Errorf("%s names %s", name, u)
			}
		}
	}
	for _, name := range names {
		if path := "/page/" + strings.TrimPrefix(name, "static/"); !strings.HasSuffix(path, ".html") && !strings.Contains(all.String(), path) {
			t.Errorf("nothing asks for %s", path)
		}
	}
}
