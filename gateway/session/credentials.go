// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// controlConn is a control stream together with the session it belongs to.
type controlConn struct {
	net.Conn
	live *live
}

// sessionInfo carries the session into RPC handlers.
type sessionInfo struct {
	credentials.CommonAuthInfo
	live *live
}

// AuthType implements credentials.AuthInfo.
func (sessionInfo) AuthType() string { return "session" }

var errNotASession = errors.New("not the control stream of a session")

// sessionCredentials hand the session of a controlConn to the RPC handlers:
// its agent was authenticated before the connection was multiplexed.
type sessionCredentials struct{}

// ServerHandshake implements credentials.TransportCredentials.
func (sessionCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := conn.(*controlConn)
	if !ok {
		return nil, nil, errNotASession
	}
	return c, sessionInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, c.live}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (sessionCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNotASession
}

// Info implements credentials.TransportCredentials.
func (sessionCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "session"}
}

// Clone implements credentials.TransportCredentials.
func (c sessionCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (sessionCredentials) OverrideServerName(string) error { return nil }

// liveFrom returns the session on which an RPC came.
func liveFrom(ctx context.Context) (*live, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	info, ok := p.AuthInfo.(sessionInfo)
	return info.live, ok
}
