// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package obs

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// ShutdownTimeout bounds how long ServeHTTP waits for requests under way.
const ShutdownTimeout = 5 * time.Second

// ServeHTTP serves h on l until ctx ends, then closes l and lets what was
// accepted before be answered, within ShutdownTimeout. Where somebody else holds
// the socket too, no connection is lost: what was not accepted waits there.
func ServeHTTP(ctx context.Context, l net.Listener, h http.Handler, logger *slog.Logger) error {
	asked := &askers{conns: make(map[net.Conn]bool), changed: make(chan struct{}, 1)}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ConnState:         asked.state,
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	err := srv.Serve(l)
	if stop() { // nobody asked for the end
		return errors.Join(err, srv.Close())
	}
	// Nothing is accepted any more. Shutdown would drop the connections whose
	// request has not been read yet, so that they are answered first.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), ShutdownTimeout)
	defer cancel()
	srv.SetKeepAlivesEnabled(false)
	asked.wait(bounded)
	if srv.Shutdown(bounded) != nil {
		srv.Close()
	}
	return nil
}

// askers are the connections that have a request under way or have not sent
// their first.
type askers struct {
	mu      sync.Mutex
	conns   map[net.Conn]bool
	changed chan struct{} // size 1
}

// state is a server's ConnState.
func (a *askers) state(c net.Conn, s http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s == http.StateNew || s == http.StateActive {
		a.conns[c] = true
		return
	}
	delete(a.conns, c)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// wait returns once there are none, or when ctx ends.
func (a *askers) wait(ctx context.Context) {
	for {
		a.mu.Lock()
		n := len(a.conns)
		a.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			return
		}
	}
}
