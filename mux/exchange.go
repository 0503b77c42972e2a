// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// RefusedError is the gateway's plain HTTP answer to a handshake.
type RefusedError struct {
	// Status is the final status of the answer.
	Status int
	// RetryAfter is zero unless the answer asked for a delay, in seconds.
	RetryAfter time.Duration
	// Reason is the answer's text if that is at most 200 bytes of printable
	// ASCII, else empty.
	Reason string
}

// Error returns status and reason.
func (e *RefusedError) Error() string {
	text := "mux: the gateway refused the session: " + strconv.Itoa(e.Status)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// request renders the handshake of a Dialer that was checked.
func request(host string, d *Dialer, token secret.String) []byte {
	sandbox := ""
	if d.Sandbox != "" {
		sandbox = "\r\n" + HeaderSandbox + ": " + d.Sandbox
	}
	return []byte("GET " + Path + " HTTP/1.1\r\nHost: " + host +
		"\r\nUser-Agent: sandbox-agent/" + d.Version +
		"\r\nConnection: Upgrade\r\nUpgrade: " + Protocol +
		"\r\nAuthorization: Bearer " + token.Reveal() +
		"\r\n" + HeaderInstance + ": " + d.Instance + sandbox +
		"\r\n" + HeaderVersion + ": " + d.Version + "\r\n\r\n")
}

// exchange sends the request and reads the answer. On 101 it returns the bytes
// that followed it.
func exchange(conn net.Conn, req []byte) ([]byte, error) {
	if _, err := conn.Write(req); err != nil {
		return nil, fmt.Errorf("mux: send the handshake: %w", err)
	}
	return readAnswer(conn)
}

// readAnswer reads the answer to a handshake, of which the heads, those of
// interim answers included, are at most 16 KiB together. Its errors hold no
// bytes of the peer except a RefusedError's reason.
func readAnswer(conn io.Reader) ([]byte, error) {
	head := &headReader{from: conn, left: maxHead}
	br := bufio.NewReader(head)
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return nil, head.fault()
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols:
			if !httpguts.HeaderValuesContainsToken(resp.Header["Upgrade"], Protocol) || !httpguts.HeaderValuesContainsToken(resp.Header["Connection"], "upgrade") {
				return nil, fmt.Errorf("%w: 101 for another protocol", ErrBadResponse)
			}
			return buffered(br)
		case resp.StatusCode >= 200:
			return nil, refused(resp)
		case resp.StatusCode < 100:
			return nil, fmt.Errorf("%w: status below 100", ErrBadResponse)
		}
	}
}

// headReader reads a bounded number of bytes and remembers how reading ended.
type headReader struct {
	from io.Reader
	left int
	err  error
}

func (h *headReader) Read(p []byte) (int, error) {
	if h.left == 0 {
		h.err = fmt.Errorf("%w: head exceeds %d bytes", ErrBadResponse, maxHead)
		return 0, h.err
	}
	n, err := h.from.Read(p[:min(len(p), h.left)])
	h.left -= n
	if err == io.EOF {
		h.err = fmt.Errorf("mux: await the answer: %w", io.ErrUnexpectedEOF)
	} else if err != nil {
		h.err = fmt.Errorf("mux: await the answer: %w", err)
	}
	return n, err
}

// fault tells a connection that failed from a peer that talks nonsense. The
// parser's own error is dropped, since it quotes the peer.
func (h *headReader) fault() error {
	if h.err != nil {
		return h.err
	}
	return fmt.Errorf("%w: not HTTP/1.1", ErrBadResponse)
}

func refused(resp *http.Response) *RefusedError {
	e := &RefusedError{Status: resp.StatusCode}
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	// One byte more than allowed, and a line end.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason+3))
	reason := strings.TrimRight(string(body), "\r\n")
	if len(reason) <= maxReason && !strings.ContainsFunc(reason, func(c rune) bool { return c < ' ' || c > '~' }) {
		e.Reason = reason
	}
	return e
}
