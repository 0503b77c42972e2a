// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Handler serves /livez, /readyz and /healthz. With verbose it also answers
// /readyz?verbose with each check, its age and its last error: for loopback
// and operator listeners only.
func (c *Checker) Handler(verbose bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "ok") })
	ready := func(w http.ResponseWriter, r *http.Request) {
		status, body := http.StatusOK, "ready"
		if !c.Ready() {
			status, body = http.StatusServiceUnavailable, "not ready"
		}
		if verbose && r.URL.Query().Has("verbose") {
			body += "\n" + c.describe(time.Now())
		}
		reply(w, status, body)
	}
	mux.HandleFunc("GET /readyz", ready)
	mux.HandleFunc("GET /healthz", ready)
	return mux
}

func reply(w http.ResponseWriter, status int, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// describe renders one line per check.
func (c *Checker) describe(now time.Time) string {
	var b strings.Builder
	if c.Draining() {
		b.WriteString("draining\n")
	}
	for _, r := range c.Results() {
		switch {
		case r.At.IsZero():
			fmt.Fprintf(&b, "%s: not checked yet\n", r.Name)
		case r.Err != nil:
			fmt.Fprintf(&b, "%s: failed %.1fs ago: %q\n", r.Name, now.Sub(r.At).Seconds(), r.Err.Error())
		default:
			fmt.Fprintf(&b, "%s: ok %.1fs ago\n", r.Name, now.Sub(r.At).Seconds())
		}
	}
	return b.String()
}
