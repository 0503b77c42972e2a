// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

const (
	// Cookie is the name of the page's cookie. Routing keeps what begins so
	// from services.
	Cookie = "sandbox-gateway-page"
	// SessionLifetime is how long a viewer stays signed in.
	SessionLifetime = 12 * time.Hour
	// maxSignIn bounds the body of a request to sign in.
	maxSignIn = 4 << 10
)

// signer makes and checks the values of cookies: when one expires, and a
// signature of that and of the host that it is for.
type signer struct{ key []byte }

func newSigner(key secret.String) signer {
	k := hmac.New(sha256.New, []byte(key.Reveal()))
	k.Write([]byte("sandbox-gateway status page, cookie, 1"))
	return signer{k.Sum(nil)}
}

func (s signer) sign(expires, host string) string {
	m := hmac.New(sha256.New, s.key)
	m.Write([]byte(expires + " " + strings.ToLower(host)))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// issue returns a value that is valid for a host until an instant.
func (s signer) issue(host string, expires time.Time) string {
	e := strconv.FormatInt(expires.Unix(), 10)
	return e + "." + s.sign(e, host)
}

// check returns until when a value is valid for a host.
func (s signer) check(value, host string, now time.Time) (expires time.Time, ok bool) {
	e, mac, _ := strings.Cut(value, ".")
	if !hmac.Equal([]byte(mac), []byte(s.sign(e, host))) {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(e, 10, 64)
	expires = time.Unix(seconds, 0)
	return expires, err == nil && now.Before(expires)
}

// viewer says who asks: nobody who may see anything, or somebody for so long.
func (s *Server) viewer(r *http.Request) (remaining time.Duration, ok bool) {
	if s.cfg.Loopback && local(r) {
		return SessionLifetime, true
	}
	now := s.cfg.Now()
	for _, c := range r.CookiesNamed(Cookie) {
		if expires, ok := s.cookies.check(c.Value, r.Host, now); ok {
			return expires.Sub(now), true
		}
	}
	return 0, false
}

// session tells whether the viewer is signed in, signs in, and signs out.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	if !method(w, r, http.MethodGet, http.MethodPost, http.MethodDelete) {
		return
	}
	cookie := http.Cookie{
		Name: Cookie, Path: prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
		MaxAge: int(SessionLifetime / time.Second),
	}
	_, in := s.viewer(r)
	switch r.Method {
	case http.MethodPost:
		token, ok := tokenOf(w, r)
		if !ok {
			http.Error(w, `send {"token":"…"} as application/json`, http.StatusBadRequest)
			return
		}
		if in = s.cfg.IsAdmin(token); in {
			cookie.Value = s.cookies.issue(r.Host, s.cfg.Now().Add(SessionLifetime))
			http.SetCookie(w, &cookie)
		}
	case http.MethodDelete:
		cookie.MaxAge = -1
		http.SetCookie(w, &cookie)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !in {
		w.WriteHeader(http.StatusUnauthorized)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"signed_in": in, "open": s.cfg.Loopback && local(r), "version": s.versionFor(in),
	})
}

func (s *Server) versionFor(in bool) string {
	if in {
		return s.cfg.Version
	}
	return ""
}

// tokenOf reads a request to sign in. JSON is what no form of another site can
// send.
func tokenOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return "", false
	}
	var body struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSignIn)).Decode(&body); err != nil {
		return "", false
	}
	return strings.TrimSpace(body.Token), true
}
