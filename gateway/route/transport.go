// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// continueTimeout is how long a client that asked whether to send its body
	// waits for the service's word; then it sends it.
	continueTimeout = time.Second
	// maxResponseHead bounds the head of a service's response, in bytes.
	maxResponseHead = 256 << 10
	// idleTimeout and maxIdle bound the relays of a service that are kept for the
	// next request.
	idleTimeout = time.Second
	maxIdle     = 8
)

// transport sends requests over relays. A relay is used again within a moment,
// for requests that are sent once more, over a new relay, if it turns out to be
// dead. All other requests have a relay of their own.
type transport struct{ kept, single *http.Transport }

func newTransport(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *transport {
	t := http.Transport{
		DialContext:            dial,
		DisableCompression:     true,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxResponseHead,
	}
	kept, single := t.Clone(), t.Clone()
	kept.IdleConnTimeout, kept.MaxIdleConnsPerHost = idleTimeout, maxIdle
	single.DisableKeepAlives = true
	return &transport{kept, single}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if repeatable(r) {
		return t.kept.RoundTrip(r)
	}
	return t.single.RoundTrip(r)
}

// repeatable reports whether a request may be sent twice, and does not belong to
// one connection: as an upgrade does, and a login that counts for a connection.
func repeatable(r *http.Request) bool {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.Body == nil || r.Body == http.NoBody) && r.Header.Get("Upgrade") == "" &&
		!strings.EqualFold(scheme, "NTLM") && !strings.EqualFold(scheme, "Negotiate")
}

func (t *transport) close() {
	t.kept.CloseIdleConnections()
	t.single.CloseIdleConnections()
}
