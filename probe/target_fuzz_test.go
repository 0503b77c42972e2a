// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzTarget: of whatever path is valid, an attempt sends one request to that
// path at localhost, and nothing else.
func FuzzTarget(f *testing.F) {
	for _, path := range []string{
		"", "/", "/ready", "/a/../b", "/%2e%2e/%00", "/%", "/%zz", "/a;b=c,d", "/a:b@c", "//host", "/\\host", "http://host/", "/a b", "/a?b", "/a#b", "/a\r\nHost: b",
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
		want := path
		if path == "" {
			want = "/"
		}
		request := appendRequest(nil, target, NewHTTP(userAgent).userAgent)
		fields, ok := bytes.CutPrefix(request, []byte("GET "+want+" HTTP/1.1\r\n"))
		if !ok || strings.ContainsAny(want, " \t\r\n?#") {
			t.Fatalf("%q asks for %q", path, request)
		}
		// What is encoded travels as it is, also where it is nonsense to Go.
		rest := bufio.NewReader(io.MultiReader(strings.NewReader("GET / HTTP/1.1\r\n"), bytes.NewReader(fields)))
		r, err := http.ReadRequest(rest)
		if err != nil || r.Host != fmt.Sprintf("localhost:%d", port) {
			t.Fatalf("%q asks %q, %v", path, request, err)
		}
		if rest.Buffered() != 0 || len(r.Header) > 3 || !r.Close || r.Header.Get("Accept") != "*/*" {
			t.Fatalf("%q sends %v, then %d bytes", path, r.Header, rest.Buffered())
		}
	})
}
