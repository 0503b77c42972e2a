// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// Hello is what an agent says of itself in the handshake. The token is not
// verified here.
type Hello struct {
	Token             secret.String
	Instance, Version string
}

// HandshakeError is a refusal that the gateway answers with: a final HTTP
// status, a short reason in the gateway's own words (printable ASCII, at most
// 200 bytes) and, for 503, when to come back.
type HandshakeError struct {
	Status     int
	Reason     string
	RetryAfter time.Duration
}

// Error returns status and reason.
func (e *HandshakeError) Error() string {
	return "mux: handshake refused: " + strconv.Itoa(e.Status) + " " + e.Reason
}

// Write sends the refusal as text/plain and asks for the connection to be
// closed. Retry-After is in whole seconds, rounded up.
func (e *HandshakeError) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	switch e.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodGet)
	case http.StatusUpgradeRequired:
		h.Set("Upgrade", Protocol)
		// Two lines: net/http closes only if the first one is exactly "close".
		h.Add("Connection", "Upgrade")
	}
	w.WriteHeader(e.Status)
	// The answer is best effort: the peer may have gone.
	_, _ = w.Write([]byte(e.Reason + "\n"))
}

// ParseHello reads the request that opens a session. The error is 405 for a
// method other than GET, 426 without an upgrade to Protocol, 400 for a request
// body or a malformed instance or version, 401 without a well-formed bearer
// token; the first that applies, in this order.
func ParseHello(r *http.Request) (Hello, *HandshakeError) {
	switch {
	case r.Method != http.MethodGet:
		return Hello{}, refuse(http.StatusMethodNotAllowed, "a session is opened with GET")
	case !r.ProtoAtLeast(1, 1) || r.ProtoMajor != 1 ||
		!httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], Protocol) || !httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade"):
		return Hello{}, refuse(http.StatusUpgradeRequired, "a session is opened with HTTP/1.1 and Upgrade: "+Protocol)
	case r.ContentLength != 0 || len(r.TransferEncoding) > 0:
		return Hello{}, refuse(http.StatusBadRequest, "the request that opens a session has no body")
	}
	instance, ok := single(r.Header[HeaderInstance])
	if !ok || !validInstance(instance) {
		return Hello{}, refuse(http.StatusBadRequest, HeaderInstance+" must be 1 to 64 of A-Z, a-z, 0-9 and -, once")
	}
	version, ok := single(r.Header[HeaderVersion])
	if !ok || !validVersion(version) {
		return Hello{}, refuse(http.StatusBadRequest, HeaderVersion+" must be 1 to 64 printable ASCII characters without space, once")
	}
	auth, ok := single(r.Header["Authorization"])
	if !ok {
		return Hello{}, refuse(http.StatusUnauthorized, "Authorization must be given once, as Bearer TOKEN")
	}
	scheme, token, _ := strings.Cut(auth, " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || !validToken(token) {
		return Hello{}, refuse(http.StatusUnauthorized, "Authorization must be Bearer TOKEN")
	}
	return Hello{Token: secret.New(token), Instance: instance, Version: version}, nil
}

func refuse(status int, reason string) *HandshakeError {
	return &HandshakeError{Status: status, Reason: reason}
}

func single(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

func validInstance(s string) bool {
	return validField(s, func(c byte) bool { return c == '-' || alphanumeric(c) })
}

func validVersion(s string) bool {
	return validField(s, func(c byte) bool { return c > ' ' && c < 0x7f })
}

func validField(s string, allowed func(byte) bool) bool {
	if s == "" || len(s) > maxHelloField {
		return false
	}
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

// validToken accepts the characters that RFC 6750 allows in a bearer token.
func validToken(s string) bool {
	s = strings.TrimRight(s, "=")
	if s == "" {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && !strings.ContainsRune("-._~+/", rune(c)) {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
