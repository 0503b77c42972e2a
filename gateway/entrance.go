// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// entrance stands in front of the API's gRPC server, which drops a connection
// that it has accepted but not looked at when a graceful stop begins. So the
// entrance is closed before: it accepts nobody any more, and waits until those
// who were accepted are inside. It is safe for concurrent use.
type entrance struct {
	net.Listener
	mu      sync.Mutex
	closed  bool              // Accept has failed last: nobody comes any more
	outside map[net.Conn]bool // accepted, the handshake has not begun
	changed chan struct{}     // size 1
}

func newEntrance(l net.Listener) *entrance {
	return &entrance{Listener: l, outside: make(map[net.Conn]bool), changed: make(chan struct{}, 1)}
}

// Accept implements net.Listener.
func (e *entrance) Accept() (net.Conn, error) {
	c, err := e.Listener.Accept()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = err != nil // for a while only, where descriptors run out
	if err != nil {
		e.signal()
		return nil, err
	}
	e.outside[c] = true
	return c, nil
}

// signal wakes leave.
func (e *entrance) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// entered takes note that the server looks at a connection.
func (e *entrance) entered(c net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.outside, c)
	e.signal()
}

// shut closes the entrance and waits, until ctx ends, for those outside.
func (e *entrance) shut(ctx context.Context) {
	e.Close()
	for {
		e.mu.Lock()
		empty := e.closed && len(e.outside) == 0
		e.mu.Unlock()
		if empty {
			return
		}
		select {
		case <-e.changed:
		case <-ctx.Done():
			return
		}
	}
}

// doorkeeper is a server's transport security that tells the entrance who
// enters.
type doorkeeper struct {
	credentials.TransportCredentials
	entrance *entrance
}

// ServerHandshake implements credentials.TransportCredentials.
func (d doorkeeper) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	d.entrance.entered(c)
	return d.TransportCredentials.ServerHandshake(c)
}

// Clone implements credentials.TransportCredentials.
func (d doorkeeper) Clone() credentials.TransportCredentials {
	return doorkeeper{d.TransportCredentials.Clone(), d.entrance}
}
