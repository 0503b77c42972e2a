// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// Source is where the page gets what it shows.
type Source interface {
	// Watch follows all services: the full state, then what changes. It calls
	// send for each message until ctx ends, send fails, or it fails itself; the
	// text of its error is for people.
	Watch(ctx context.Context, send func(*sandboxv1.WatchServicesResponse) error) error
	// History returns the latest transitions of a service.
	History(ctx context.Context, workspace, sandbox, name string) (*sandboxv1.ListServiceTransitionsResponse, error)
	// Sandboxes lists all sandboxes.
	Sandboxes(ctx context.Context) ([]*openshellv1.Sandbox, error)
}

// MaxViewers is how many event streams are served at once.
const MaxViewers = 100

// Config is what a Server needs.
type Config struct {
	Source Source
	// IsAdmin tells the admin token, in constant time.
	IsAdmin func(token string) bool
	// Key signs cookies. It changes when the admin token does, so that cookies
	// end with it.
	Key secret.String
	// Loopback says that the listener can be reached from this host alone.
	Loopback bool
	// Now is the clock by which cookies expire.
	Now func() time.Time
	// Version is the gateway's.
	Version string
	// Next serves every path that is not of the page.
	Next http.Handler
}

// Server serves the page.
type Server struct {
	cfg       Config
	cookies   signer
	sandboxes listing

	mu      sync.Mutex
	viewers int
}

// New returns a Server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, cookies: newSigner(cfg.Key), sandboxes: listing{list: cfg.Source.Sandboxes}}
}

// prefix is that of all paths of the page but its own, "/".
const prefix = "/page/"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if path != "/" && (len(path) < len(prefix) || path[:len(prefix)] != prefix) {
		s.cfg.Next.ServeHTTP(w, r)
		return
	}
	protect(w.Header())
	if !allowed(r) {
		http.Error(w, "this request comes from another page, which may not send it", http.StatusForbidden)
		return
	}
	switch path {
	case prefix + "events":
		if method(w, r, http.MethodGet) {
			s.events(w, r)
		}
	case prefix + "session":
		s.session(w, r)
	default:
		if method(w, r, http.MethodGet, http.MethodHead) {
			file(w, r, path)
		}
	}
}

// protect sets the headers of every answer: it is shown nowhere but in its own
// window, runs nothing but its own scripts, and is kept nowhere.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// method reports whether the request's method is one of those, or answers.
func method(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	allow := ""
	for _, m := range methods {
		if r.Method == m {
			return true
		}
		if allow != "" {
			allow += ", "
		}
		allow += m
	}
	w.Header().Set("Allow", allow)
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}

// enter counts a viewer, unless there are too many.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.viewers >= MaxViewers {
		return false
	}
	s.viewers++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.viewers--
}
