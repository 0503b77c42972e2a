// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"

// Upgrade answers 101 and turns the request's connection into the gateway's end
// of a session. The caller has called ParseHello and has decided to accept; it
// should return from its handler soon, which frees what net/http keeps for the
// request. Bytes that the agent sent before it had the answer are kept. After
// an error the connection is closed, unless it could not be taken over at all.
func Upgrade(w http.ResponseWriter, r *http.Request, cfg Config) (*Session, error) {
	if _, err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("mux: take over the connection: %w", err)
	}
	early, err := buffered(rw.Reader)
	if err == nil {
		err = writeBy(conn, []byte(switching), time.Now().Add(HandshakeTimeout))
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("mux: answer the handshake: %w", err)
	}
	tune(conn)
	return newSession(conn, early, cfg, false)
}

// buffered returns a copy of what a reader has read ahead.
func buffered(br *bufio.Reader) ([]byte, error) {
	p, err := br.Peek(br.Buffered())
	return slices.Clone(p), err
}

func writeBy(conn net.Conn, p []byte, deadline time.Time) error {
	if err := conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write(p); err != nil {
		return err
	}
	return conn.SetWriteDeadline(time.Time{})
}
