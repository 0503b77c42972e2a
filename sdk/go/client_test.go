// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/sdk/go/sandboxtest"
)

// Every method reaches its own call, with the request as it was given.
func TestCalls(t *testing.T) {
	g := sandboxtest.New(sandboxtest.Options{Token: "t0ken"})
	c := sandboxtest.Start(t, g)
	ctx := t.Context()
	var want []proto.Message
	check := func(resp proto.Message, err error) func(proto.Message) {
		return func(req proto.Message) {
			t.Helper()
			if err != nil || resp == nil {
				t.Fatalf("%T: %v, %v", req, resp, err)
			}
			want = append(want, req)
		}
	}
	check(c.Health(ctx))(&openshellv1.HealthRequest{})
	create := &openshellv1.CreateSandboxRequest{Name: "web", RequestId: sandbox.NewRequestID()}
	check(c.CreateSandbox(ctx, create))(create)
	expose := &openshellv1.ExposeServiceRequest{Sandbox: "web", TargetPort: 8080}
	check(c.ExposeService(ctx, expose))(expose)
	get := &openshellv1.GetServiceRequest{Sandbox: "web"}
	check(c.GetService(ctx, get))(get)
	remove := &openshellv1.DeleteServiceRequest{Sandbox: "web"}
	check(c.DeleteService(ctx, remove))(remove)
	stop := &openshellv1.StopSandboxRequest{Name: "web"}
	check(c.StopSandbox(ctx, stop))(stop)
	start := &openshellv1.StartSandboxRequest{Name: "web", WorkspaceScope: sandbox.Workspace("default")}
	check(c.StartSandbox(ctx, start))(start)
	read := &openshellv1.GetSandboxRequest{Name: "web", WorkspaceScope: sandbox.Workspace("")}
	check(c.GetSandbox(ctx, read))(read)
	erase := &openshellv1.DeleteSandboxRequest{Name: "web"}
	check(c.DeleteSandbox(ctx, erase))(erase)
	check(c.API().Health(ctx, &openshellv1.HealthRequest{}))(&openshellv1.HealthRequest{})

	got := g.Requests()
	if len(got) != len(want) {
		t.Fatalf("%d requests arrived, want %d", len(got), len(want))
	}
	for i := range want {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("request %d: %T %v, want %T %v", i, got[i], got[i], want[i], want[i])
		}
	}
}

func TestDialTLS(t *testing.T) {
	dir := t.TempDir()
	address := sandboxtest.StartTLS(t, sandboxtest.New(sandboxtest.Options{Token: "t0ken"}), dir)
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	otherDir := t.TempDir()
	sandboxtest.StartTLS(t, sandboxtest.New(sandboxtest.Options{}), otherDir)
	for _, tt := range []struct {
		name string
		o    sandbox.Options
		want error
	}{
		{"CA file", sandbox.Options{Token: "t0ken", CAFile: filepath.Join(dir, "ca.crt")}, nil},
		{"CA bytes", sandbox.Options{Token: "t0ken", CA: ca, UserAgent: "test/1"}, nil},
		{"another CA", sandbox.Options{Token: "t0ken", CAFile: filepath.Join(otherDir, "ca.crt")}, sandbox.ErrUnavailable},
		{"the system's CAs", sandbox.Options{Token: "t0ken"}, sandbox.ErrUnavailable},
		{"wrong token", sandbox.Options{Token: "other", CA: ca}, sandbox.ErrUnauthenticated},
		{"no token", sandbox.Options{CA: ca}, sandbox.ErrUnauthenticated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Address = address
			c, err := sandbox.Dial(t.Context(), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, err := range c.Sandboxes(t.Context(), nil) {
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				return
			}
			if tt.want != nil {
				t.Errorf("no error, want %v", tt.want)
			}
		})
	}
}

// sandboxCA is the certificate of an authority, PEM.
func sandboxCA(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	sandboxtest.StartTLS(t, sandboxtest.New(sandboxtest.Options{}), dir)
	b, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDialOptions(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.crt")
	if err := os.WriteFile(empty, []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	certificate := sandboxCA(t)
	many, tooMany := filepath.Join(dir, "many.crt"), filepath.Join(dir, "too-many.crt")
	for name, size := range map[string]int{many: 300 << 10, tooMany: 1<<20 + 1} { // as a system has them, and beyond
		if err := os.WriteFile(name, bytes.Repeat(certificate, size/len(certificate)+1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		o     sandbox.Options
		field string // empty: accepted
	}{
		{sandbox.Options{Address: "https://h", CAFile: many}, ""},
		{sandbox.Options{Address: "https://h", CAFile: tooMany}, "CAFile"},
		{sandbox.Options{Address: "https://h", CAFile: "/dev/zero"}, "CAFile"},
		{sandbox.Options{Address: "https://gateway.example"}, ""},
		{sandbox.Options{Address: "http://127.0.0.1:1"}, ""},
		{sandbox.Options{Address: "http://10.0.0.1:1", Insecure: true, Token: "t"}, ""},
		{sandbox.Options{}, "Address"},
		{sandbox.Options{Address: "http://10.0.0.1:1"}, "Address"},
		{sandbox.Options{Address: "https://h", Token: "two words"}, "Token"},
		{sandbox.Options{Address: "https://h", CAFile: filepath.Join(dir, "missing")}, "CAFile"},
		{sandbox.Options{Address: "https://h", CAFile: empty}, "CAFile"},
		{sandbox.Options{Address: "https://h", CA: []byte("not PEM")}, "CA"},
		{sandbox.Options{Address: "https://h", CAFile: empty, CA: []byte("x")}, "CA"},
	} {
		c, err := sandbox.Dial(t.Context(), tt.o)
		if c != nil {
			c.Close()
		}
		wrong, ok := errors.AsType[*sandbox.OptionError](err)
		if (tt.field == "") != (err == nil) || (tt.field != "" && (!ok || wrong.Field != tt.field)) {
			t.Errorf("Dial(%+v): %v, want an error of field %q", tt.o, err, tt.field)
		}
	}
	_, err := sandbox.Dial(t.Context(), sandbox.Options{Address: "https://h", CAFile: filepath.Join(dir, "missing")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing CA file: %v, want os.ErrNotExist inside", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sandbox.Dial(ended, sandbox.Options{Address: "https://h"}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

// Dial does not wait for the gateway: a client that came too early says so,
// call by call, and works once the gateway is there.
func TestGatewayComesLater(t *testing.T) {
	dir := t.TempDir()
	address := sandboxtest.StartTLS(t, sandboxtest.New(sandboxtest.Options{}), dir)
	refuse := make(chan error, 1)
	refuse <- errors.New("not there yet")
	c, err := sandbox.Dial(t.Context(), sandbox.Options{
		Address: address,
		CAFile:  filepath.Join(dir, "ca.crt"),
		Dialer: func(ctx context.Context, hostPort string) (net.Conn, error) {
			select {
			case err := <-refuse:
				return nil, err
			default:
				return (&net.Dialer{}).DialContext(ctx, "tcp", hostPort)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Health(t.Context()); !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("no gateway: %v, want ErrUnavailable", err)
	}
	if _, err := c.API().Health(t.Context(), &openshellv1.HealthRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("the gateway is there: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Health(t.Context()); !errors.Is(err, sandbox.ErrCanceled) {
		t.Errorf("closed client: %v, want ErrCanceled", err)
	}
}
