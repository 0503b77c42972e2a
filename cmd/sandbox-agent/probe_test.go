// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
)

var latency = regexp.MustCompile(`latency: [0-9.]+(ns|µs|ms|s)\n`)

func TestProbe(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ready":
			w.WriteHeader(http.StatusNoContent)
		case "/starting":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, nobody, _ := net.SplitHostPort(closed.Addr().String())
	closed.Close()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{port}, 0, "outcome: Pass\nreason: OK\nlatency: -\nstatus: 404\naddress: 127.0.0.1\n"},
		{[]string{port, ""}, 1, "outcome: Fail\nreason: BadStatus\nlatency: -\nstatus: 404\naddress: 127.0.0.1\n"},
		{[]string{port, "/ready"}, 0, "outcome: Pass\nreason: OK\nlatency: -\nstatus: 204\naddress: 127.0.0.1\n"},
		{[]string{port, "/starting"}, 1, "outcome: Fail\nreason: BadStatus\nlatency: -\nstatus: 503\naddress: 127.0.0.1\n"},
		{[]string{nobody, "/ready"}, 1, "outcome: Fail\nreason: Refused\nlatency: -\n"},
	} {
		got := agentDoes(nil, append([]string{"check", "--probe"}, c.args...)...)
		if out := latency.ReplaceAllString(got.stdout, "latency: -\n"); got.code != c.code || out != c.want || got.stderr != "" {
			t.Errorf("%q: %d %q %q, want %d %q", c.args, got.code, out, got.stderr, c.code, c.want)
		}
	}
}
