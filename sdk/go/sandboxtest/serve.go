// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// Start serves g over memory and returns a client that sends g's token. Both
// end with the test.
func Start(t testing.TB, g *Gateway) *sandbox.Client {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	serve(t, g, lis)
	client, err := sandbox.Dial(t.Context(), sandbox.Options{
		Address: "http://localhost:1",
		Token:   sandbox.Token(g.o.Token),
		Dialer:  func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) },
	})
	if err != nil {
		t.Fatalf("dial the fake gateway: %v", err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil && status.Code(err) != codes.Canceled { // closed by the test
			t.Errorf("close the client: %v", err)
		}
	})
	return client
}

// StartTLS serves g on a loopback port with TLS until the test ends, and
// writes to dir what a gateway leaves there for its clients: client.json,
// ca.crt and admin.token. It returns the address, "https://127.0.0.1:PORT".
func StartTLS(t testing.TB, g *Gateway, dir string) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	certificate, authority := certificates(t)
	serve(t, g, lis, grpc.Creds(credentials.NewServerTLSFromCert(certificate)))
	api := "https://" + lis.Addr().String()
	client, err := json.Marshal(map[string]string{
		"api": api, "ca_file": "ca.crt", "token_file": "admin.token", "http": "http://127.0.0.1:17680",
	})
	if err != nil {
		t.Fatalf("client.json: %v", err)
	}
	for name, content := range map[string][]byte{"client.json": client, "ca.crt": authority, "admin.token": []byte(g.o.Token + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatalf("write the state directory: %v", err)
		}
	}
	return api
}

func serve(t testing.TB, g *Gateway, lis net.Listener, opts ...grpc.ServerOption) {
	opts = append(opts,
		grpc.UnaryInterceptor(g.intercept),
		grpc.StreamInterceptor(g.interceptStream),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing}),
	)
	server := grpc.NewServer(opts...)
	openshellv1.RegisterOpenShellServer(server, g)
	sandboxv1.RegisterServiceHealthWatchServer(server, g)
	sandboxv1.RegisterServiceForwardServer(server, g)
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
			t.Errorf("serve: %v", err)
		}
	})
}

func (g *Gateway) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.admit(ctx, path.Base(info.FullMethod), req.(proto.Message), tokenOf(ctx)); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (g *Gateway) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &admitted{stream, g, path.Base(info.FullMethod)})
}

// admitted is a stream whose request is admitted as that of any other call.
type admitted struct {
	grpc.ServerStream
	gateway *Gateway
	method  string
}

func (a *admitted) RecvMsg(m any) error {
	if err := a.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return a.gateway.admit(a.Context(), a.method, m.(proto.Message), tokenOf(a.Context()))
}

func tokenOf(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 {
		return values[0]
	}
	return ""
}
