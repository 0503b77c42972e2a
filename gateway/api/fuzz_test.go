// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/base64"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// refused holds for every refusal, whatever was refused.
func refused(t *testing.T, err error, field string) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != codes.InvalidArgument || !strings.HasPrefix(s.Message(), field+": ") {
		t.Errorf("refused with %v", err)
	}
	if strings.ContainsFunc(s.Message(), func(r rune) bool { return !printable(r) }) || len(s.Message()) > 64<<10 {
		t.Errorf("refused with raw text %q", s.Message())
	}
}

// A token is one that encodeToken has made, or it is refused.
func FuzzPageToken(f *testing.F) {
	query := queryID("sandboxes", "")
	f.Add("")
	f.Add("%")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("{}")))
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"q":null,"w":"a","n":"b"}`)))
	f.Add(encodeToken(query, store.Cursor{Workspace: "default", Name: "web"}))
	f.Add(encodeToken(query, store.Cursor{Workspace: "default", Sandbox: "web", Name: ""}))
	f.Add(encodeToken(query, store.Cursor{Name: evil}))
	f.Add(encodeToken(queryID("services"), store.Cursor{Name: "x"}))
	f.Fuzz(func(t *testing.T, token string) {
		after, err := decodeToken(token, query)
		switch {
		case err != nil:
			refused(t, err, "page_token")
		case token == "":
			if after != (store.Cursor{}) {
				t.Errorf("the first page begins after %+v", after)
			}
		case !after.Set || encodeToken(query, after) != token:
			t.Errorf("%q was taken as %+v", token, after)
		}
	})
}

// A selector that is taken says the same in its sorted form.
func FuzzSelector(f *testing.F) {
	for _, s := range []string{"", "a", "=b", "a=", "a=b", "a=b,c=d", "a=b,a=b", "a=b,a=c", "a=b,", "a=b=c", " a=b", "a=\x00", evil, "a=" + evil, strings.Repeat("k", 254) + "=v"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := selector(text)
		if err != nil {
			refused(t, err, "label_selector")
			return
		}
		var terms []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			terms = append(terms, k+"="+m[k])
			if validPairs("label", map[string]string{k: m[k]}) != nil {
				t.Errorf("asks for a label that no sandbox can have: %q", k)
			}
		}
		again, err := selector(strings.Join(terms, ","))
		if err != nil || !maps.Equal(again, m) {
			t.Errorf("%q is %q, which is %q, %v", text, m, again, err)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, n := range badNames {
		f.Add(n.name)
	}
	for _, good := range []string{"a", "a-b", "0", "a1-b2-c3", strings.Repeat("a", 28)} {
		f.Add(good)
	}
	rule := regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,26}[a-z0-9])?\z`)
	f.Fuzz(func(t *testing.T, name string) {
		err := validName("name", name)
		if want := rule.MatchString(name) && !strings.Contains(name, "--"); want != (err == nil) {
			t.Errorf("%q: %v, the rule says %v", name, err, want)
		}
		if err != nil {
			refused(t, err, "name")
		}
	})
}

// A path that is taken cannot leave its request line or its host.
func FuzzPath(f *testing.F) {
	for _, p := range badPaths {
		f.Add(p.path)
	}
	for _, good := range []string{"", "/", "/ready", "/a/../b", "/%2e%2e/%00", "/a;b=c", "/a:b@c", "/" + strings.Repeat("a", 1023)} {
		f.Add(good)
	}
	f.Fuzz(func(t *testing.T, path string) {
		has, stored, err := checkOf("readiness_check", check(path))
		if err != nil {
			refused(t, err, "readiness_check.path")
			return
		}
		if !has || stored == "" || path != "" && stored != path {
			t.Errorf("%q is stored as %v %q", path, has, stored)
		}
		if len(stored) > 1024 || stored[0] != '/' || strings.HasPrefix(stored, "//") || strings.ContainsAny(stored, "?# \t\r\n\x00\x7f") ||
			strings.ContainsFunc(stored, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q is stored", stored)
		}
		if base, err := url.Parse("http://127.0.0.1:80"); err == nil {
			if ref, err := base.Parse(stored); err == nil && ref.Host != base.Host {
				t.Errorf("%q leads to %q", stored, ref.Host)
			}
		}
	})
}
