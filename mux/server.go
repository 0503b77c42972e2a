// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

// NewServer returns a server for the listener that agents dial: HTTP/1.1 only,
// TLS 1.3 only if a TLS configuration is given (it is cloned), 10 s for the TLS
// handshake and for the request, heads of at most 16 KiB. Its own messages go
// to log at debug level; nil means nowhere. The server serves nothing until
// Serve or ServeTLS is called, the latter with a listener of LimitHandshakes.
func NewServer(handler http.Handler, config *tls.Config, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: HandshakeTimeout,
		ReadTimeout:       HandshakeTimeout,
		WriteTimeout:      HandshakeTimeout,
		IdleTimeout:       HandshakeTimeout,
		MaxHeaderBytes:    maxHead,
		Protocols:         new(http.Protocols),
		ErrorLog:          slog.NewLogLogger(errorLog{log}, slog.LevelDebug),
	}
	s.Protocols.SetHTTP1(true)
	if config != nil {
		s.TLSConfig = config.Clone()
		harden(s.TLSConfig)
	}
	return s
}

// errorLog gives net/http's messages one constant text.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.log != nil && l.log.Enabled(ctx, level)
}

func (l errorLog) Handle(ctx context.Context, r slog.Record) error {
	l.log.LogAttrs(ctx, slog.LevelDebug, "supervisor listener", slog.Time("at", r.Time.Round(time.Millisecond)), slog.String("detail", r.Message))
	return nil
}

func (l errorLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l errorLog) WithGroup(string) slog.Handler      { return l }
