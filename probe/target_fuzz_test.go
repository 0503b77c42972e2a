// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// FuzzTarget: of whatever path is valid, an attempt sends one request to that
// path at localhost, and nothing else.
func FuzzTarget(f *testing.F) {
	for _, path := range []string{
		"", "/", "/ready", "/a/../b", "/%2e%2e/%00", "/a;b=c,d", "/a:b@c", "//host", "/\\host", "http://host/", "/a b", "/a?b", "/a#b", "/a\r\nHost: b",
		"/\x00", "/\x7f", "/é", "*", "/" + strings.Repeat("a", 1023), "/" + strings.Repeat("a", 1024),
	} {
		f.Add(path, uint16(8080), "sandbox-agent/1.2.3")
	}
	f.Add("/", uint16(0), "\r\nCookie: a=b")
	f.Fuzz(func(t *testing.T, path string, port uint16, userAgent string) {
		target := Target{Port: port, Path: path}
		if err := target.Validate(); err != nil {
			for _, c := range []byte(err.Error()) {
				if c < ' ' || c > '~' {
					t.Fatalf("%q is refused with raw text %q", path, err)
				}
			}
			return
		}
		request := appendRequest(nil, target, NewHTTP(userAgent).userAgent)
		rest := bufio.NewReader(bytes.NewReader(request))
		r, err := http.ReadRequest(rest)
		if err != nil {
			t.Fatalf("%q: %v\n%s", path, err, request)
		}
		want := path
		if path == "" {
			want = "/"
		}
		if r.Method != "GET" || r.RequestURI != want || r.Host != fmt.Sprintf("localhost:%d", port) || r.URL.Host != "" || r.URL.RawQuery != "" || r.Proto != "HTTP/1.1" {
			t.Fatalf("%q asks for %s %q at %q", path, r.Method, r.RequestURI, r.Host)
		}
		if rest.Buffered() != 0 || len(r.Header) > 3 || !r.Close || r.Header.Get("Accept") != "*/*" {
			t.Fatalf("%q sends %v, then %d bytes", path, r.Header, rest.Buffered())
		}
	})
}
