// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package mux is one session between an agent and a gateway: one connection
// that the agent dialled, authenticated as an HTTP/1.1 Upgrade and from then on
// carrying many streams, by the protocol of yamux, version 0.
//
// # Life of a session
//
// The agent calls Dialer.Dial. The gateway's HTTP handler calls ParseHello,
// decides on its own whether it wants that agent, and calls Upgrade or writes a
// HandshakeError. Both then hold a Session, which lives until Close, until the
// connection fails or until the peer breaks the protocol; Done and Err say that
// and why. Nothing here notices a silent peer: the callers exchange reports
// every few seconds, and they close a session in which these stay away.
//
// A Dial and an Upgrade start two goroutines; they end with the session. The
// exception is a connection whose Close wakes neither its Read nor its Write:
// Close returns nevertheless, and who reads or writes stays behind with it.
//
// # Streams
//
// Each side opens its own kind: the agent KindControl, the gateway KindRelay.
// The opener's first bytes are the kind (1 byte), the length of the header (2
// bytes, big endian) and the header. Config.Handle is called once for every
// stream that the peer opened, in a goroutine of its own, after these have
// arrived; streams are not ordered among each other. Whoever got a Stream, from
// Open or in Handle, owns it and must Close or Reset it; returning from Handle
// does not.
//
// Bytes of one stream arrive in order. CloseWrite ends one direction and leaves
// the other as it is. Close ends both: what was written before still arrives,
// followed by the end of the stream, and a peer that goes on sending is reset.
// Reset ends both at once and may lose what is under way; the peer sees
// ErrReset, so it cannot mistake a broken stream for a complete one. The same
// holds for a session that ends: its streams report ErrSessionClosed, never a
// clean io.EOF that was not sent.
//
// # Sharing the connection
//
// All streams share one connection, first come, first served. Relay streams
// together have at most two frames before it (of 8 KiB, or 64 KiB where it is
// fast), so that a control stream, which has no such limit, waits for little
// even on a slow link. A stream whose reader has stopped waits for its own
// window (256 KiB, up to 1 MiB where the reader was fast, which adds at most 8
// MiB to a session) and holds up nobody else; give its writes a deadline. A
// connection that takes nothing for 10 s ends its session with ErrStalled.
//
// The inside is two halves. The receiver reads frames and tells streams what they
// say; it waits for the connection only. The sender writes frames for whoever has
// some, one at a time. A Stream is a state between them, behind one lock.
//
// # Concurrency
//
// Session, Stream and Dialer are safe for concurrent use; one reader and one
// writer per stream is the sensible number. Redial is a plain value for one
// goroutine.
package mux
