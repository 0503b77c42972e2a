// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"
	"time"
)

// The handshake, as it appears on the wire.
const (
	// Path is the target of the request that opens a session.
	Path = "/supervisor/v1/session"
	// Protocol is the value of Upgrade in the request and in the answer 101.
	Protocol = "sandbox-supervisor/1"
	// HeaderInstance names the life of the agent: 1 to 64 of [A-Za-z0-9-].
	HeaderInstance = "Sandbox-Agent-Instance"
	// HeaderSandbox optionally is the id of the sandbox that the agent believes to
	// be in, of the form of HeaderInstance; a token for another one is refused.
	HeaderSandbox = "Sandbox-Agent-Sandbox"
	// HeaderVersion is the agent's version: 1 to 64 printable ASCII characters
	// without spaces.
	HeaderVersion = "Sandbox-Agent-Version"
	// HandshakeTimeout bounds the whole handshake, from dialling to the 101.
	HandshakeTimeout = 10 * time.Second
)

// Limits of a session.
const (
	// MaxHeader is the greatest length of a stream's header in bytes.
	MaxHeader = 4 << 10
	// DefaultMaxStreams is Config.MaxStreams when it is zero.
	DefaultMaxStreams = 256

	backlog        = 320                  // streams that wait to be accepted, at both ends
	window         = 256 << 10            // bytes of a stream that its reader has not taken, see window.go
	maxChunk       = 8<<10 - frameHeader  // payload of a frame, see write.go
	bulkChunk      = 64<<10 - frameHeader // of a greater one
	maxFrame       = frameHeader + bulkChunk
	maxRecord      = 16 << 10         // bytes of a TLS record
	relayFrames    = 2                // frames that all relay streams together have queued
	writeTimeout   = 10 * time.Second // for the connection to take a frame
	headerTimeout  = 10 * time.Second // for the kind and header of a stream to arrive
	maxUnread      = 512              // streams whose kind and header have not arrived
	maxKept        = 1024             // streams of a session in whatever state
	closeTimeout   = 2 * time.Second  // for a session's Close
	lingerMax      = time.Minute      // for the peer to end a stream that we closed
	lingerGrace    = time.Second      // in which a peer may go on sending to it
	maxLingering   = 256              // streams that wait like this
	maxHead        = 16 << 10         // bytes of a request's or an answer's head
	maxReason      = 200              // bytes of RefusedError.Reason
	maxHelloField  = 64               // bytes of instance and version
	handshakeSlots = 64               // TLS handshakes computed at once
)

// Kind says what a stream is for.
type Kind byte

const (
	// KindControl is opened by the agent and carries gRPC.
	KindControl Kind = 1
	// KindRelay is opened by the gateway for one relayed connection; its header
	// is the name of the service.
	KindRelay Kind = 2
)

// String returns "control", "relay" or "kind(N)".
func (k Kind) String() string {
	switch k {
	case KindControl:
		return "control"
	case KindRelay:
		return "relay"
	}
	return fmt.Sprintf("kind(%d)", byte(k))
}

// Errors of sessions and streams, to be compared with errors.Is.
var (
	// ErrSessionClosed is what Open and every operation on a stream return once
	// the session has ended, together with the cause; alone it is Session.Err
	// after Session.Close.
	ErrSessionClosed = errors.New("mux: session closed")
	// ErrTooManyStreams is returned by Open when Config.MaxStreams are open.
	ErrTooManyStreams = errors.New("mux: too many open streams")
	// ErrKind is returned by Open for a kind that this side does not open.
	ErrKind = errors.New("mux: this side opens no stream of that kind")
	// ErrHeaderTooLarge is returned by Open for a header above MaxHeader.
	ErrHeaderTooLarge = fmt.Errorf("mux: stream header exceeds %d bytes", MaxHeader)
	// ErrReset is returned by a stream that the peer ended before its end.
	ErrReset = errors.New("mux: stream reset by the peer")
	// ErrProtocol is Session.Err when the peer sent what is no frame, or a frame
	// that it was not allowed to send.
	ErrProtocol = errors.New("mux: protocol violated by the peer")
	// ErrStalled is Session.Err when the connection took nothing for 10 s.
	ErrStalled = errors.New("mux: connection stalled")
	// ErrBadResponse is returned by Dial when the answer is neither a 101 for
	// Protocol nor an HTTP error: no HTTP, a head above 16 KiB, another protocol.
	ErrBadResponse = errors.New("mux: the answer to the handshake is not valid")
	// ErrToken: a Dialer's Token failed, or returned what no bearer token is.
	// Nothing was sent.
	ErrToken = errors.New("mux: no usable token")
)

// Config is what a session needs besides its connection.
type Config struct {
	// Handle is called once per stream that the peer opened, each time in a
	// goroutine of its own, and owns the stream. A stream whose kind and header
	// do not arrive within 10 s is reset without a call. Nil resets all.
	Handle func(*Stream)
	// MaxStreams bounds the streams that Open holds at once. Zero means
	// DefaultMaxStreams; the value must be below 320, the number of streams that
	// a peer may leave unaccepted.
	MaxStreams int
}

func (c Config) withDefaults() (Config, error) {
	if c.MaxStreams == 0 {
		c.MaxStreams = DefaultMaxStreams
	}
	if c.MaxStreams < 0 || c.MaxStreams >= backlog {
		return c, fmt.Errorf("mux: MaxStreams is %d; it must be between 1 and %d", c.MaxStreams, backlog-1)
	}
	return c, nil
}
