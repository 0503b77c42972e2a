// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
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
	e := &exchange{ctx: r.Context()}
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { e.over(info.Conn) },
	}))
	via := t.single
	if repeatable(r) {
		via = t.kept
	}
	resp, err := via.RoundTrip(r)
	switch {
	case err != nil:
	case resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols:
		e.end()
	default:
		resp.Body = &body{resp.Body, e}
	}
	return resp, err
}

// exchange is a request and its response on a relay. Who gives it up half way
// resets the relay, so that the service does not go on for nobody; what has
// come to its end is closed in good order.
type exchange struct {
	ctx  context.Context
	mu   sync.Mutex
	conn *patient
}

// over says on which relay it is: a second one, if the first was dead.
func (e *exchange) over(conn net.Conn) {
	p, ok := conn.(*patient)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn = p
	p.given.Store(&e.ctx)
}

// end says that the response is complete.
func (e *exchange) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil { // which may be given to somebody else already
		e.conn.given.CompareAndSwap(&e.ctx, nil)
	}
}

// abort says that nobody wants the rest.
func (e *exchange) abort() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil && e.conn.given.Load() == &e.ctx {
		e.conn.aborted.Store(true)
	}
}

// body is a response's, which tells its end.
type body struct {
	io.ReadCloser
	exchange *exchange
}

// Read reads.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.exchange.end()
	}
	return n, err
}

// Close closes; before the end it gives the exchange up.
func (b *body) Close() error {
	b.exchange.abort()
	return b.ReadCloser.Close()
}

// repeatable reports whether a request may be sent twice, and does not belong to
// one connection: as an upgrade does, and a login that counts for a connection.
func repeatable(r *http.Request) bool {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.Body == nil || r.Body == http.NoBody) && r.Header.Get("Upgrade") == "" &&
		!strings.EqualFold(scheme, "NTLM") && !strings.EqualFold(scheme, "Negotiate")
}

// switches reports whether a response switches to the protocol that its request
// asks for.
func switches(resp *http.Response) bool {
	asked, to := resp.Request.Header.Get("Upgrade"), resp.Header.Get("Upgrade")
	return asked != "" && len(asked) == len(to) && strings.EqualFold(asked, to) &&
		httpguts.HeaderValuesContainsToken(resp.Header["Connection"], "upgrade")
}

func (t *transport) close() {
	t.kept.CloseIdleConnections()
	t.single.CloseIdleConnections()
}
