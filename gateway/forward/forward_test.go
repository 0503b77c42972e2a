// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/route"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a Server on a real listener, with one service of sandbox web that
// does what serve says.
type world struct {
	server  *Server
	client  sandboxv1.ServiceForwardClient
	session *mux.Session
	open    bool
	err     error // of Endpoint
}

// Endpoint implements route.Directory.
func (w *world) Endpoint(_ context.Context, name route.Name) (route.Endpoint, error) {
	switch {
	case w.err != nil:
		return route.Endpoint{}, w.err
	case name.Sandbox != "web":
		return route.Endpoint{}, route.ErrNoSandbox
	case name.Service != "":
		return route.Endpoint{}, route.ErrNoService
	}
	return route.Endpoint{SandboxID: "id", Port: 80, Phase: "stopped", Open: w.open}, nil
}

// OpenRelay implements Relays.
func (w *world) OpenRelay(ctx context.Context, _, service string) (Relay, error) {
	r, err := w.session.OpenRelay(ctx, service)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func newWorld(t *testing.T, status mux.RelayStatus, serve func(*mux.Stream)) *world {
	t.Helper()
	logger := testkit.Logger(t)
	_, g := muxtest.Connect(t, "unix", mux.Config{Handle: func(s *mux.Stream) {
		_ = s.Answer(status)
		serve(s)
		_ = s.Close()
	}}, mux.Config{})
	w := &world{session: g, open: true}
	w.server = New(Config{Directory: w, Relays: w, Logger: logger})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	sandboxv1.RegisterServiceForwardServer(server, w.server)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		w.server.Close()
		server.Stop()
		<-done
	})
	w.client = sandboxv1.NewServiceForwardClient(conn)
	return w
}

func target(sandbox, name string) *sandboxv1.ForwardRequest {
	return &sandboxv1.ForwardRequest{Message: &sandboxv1.ForwardRequest_Target{Target: &sandboxv1.ForwardTarget{Sandbox: sandbox, Name: name}}}
}

func data(b []byte) *sandboxv1.ForwardRequest {
	return &sandboxv1.ForwardRequest{Message: &sandboxv1.ForwardRequest_Data{Data: b}}
}

type callStream = grpc.BidiStreamingClient[sandboxv1.ForwardRequest, sandboxv1.ForwardResponse]

func (w *world) call(t *testing.T, messages ...*sandboxv1.ForwardRequest) callStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c, err := w.client.Forward(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := c.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// rest reads a call to its end: the data, whether it was accepted and ended in
// good order, and its status.
func rest(c callStream) (got []byte, accepted, ended bool, err error) {
	for {
		m, err := c.Recv()
		if err == io.EOF {
			return got, accepted, ended, nil
		}
		if err != nil {
			return got, accepted, ended, err
		}
		accepted = accepted || m.GetAccepted() != nil
		ended = ended || m.GetEnd() != nil
		got = append(got, m.GetData()...)
	}
}

// T21: what was asked arrives, and the reply after the question's end.
func TestForward(t *testing.T) {
	question := make([]byte, 1<<20+3)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(question)
	w := newWorld(t, mux.RelayAccepted, func(s *mux.Stream) {
		got, _ := io.ReadAll(s)
		_, _ = s.Write([]byte("reply to "))
		_, _ = s.Write(got)
		_ = s.CloseWrite()
	})
	c := w.call(t, target("web", ""))
	for part := range slices(question, 32<<10) {
		if err := c.Send(data(part)); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.CloseSend()
	got, accepted, ended, err := rest(c)
	if !accepted || !ended || err != nil || !bytes.Equal(got, append([]byte("reply to "), question...)) {
		t.Errorf("%d bytes, accepted %v, ended %v, %v", len(got), accepted, ended, err)
	}
}

func slices(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

// The service may end first and hear the rest.
func TestServiceEndsFirst(t *testing.T) {
	heard := make(chan string, 1)
	w := newWorld(t, mux.RelayAccepted, func(s *mux.Stream) {
		_, _ = s.Write([]byte("hello"))
		_ = s.CloseWrite()
		got, _ := io.ReadAll(s)
		heard <- string(got)
	})
	c := w.call(t, target("web", ""))
	for {
		m, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetEnd() != nil {
			break
		}
	}
	_ = c.Send(data([]byte("farewell")))
	_ = c.CloseSend()
	if got := <-heard; got != "farewell" {
		t.Errorf("the service hears %q", got)
	}
	if _, _, _, err := rest(c); err != nil {
		t.Errorf("the call ends with %v", err)
	}
}

func TestForwardFails(t *testing.T) {
	hangUp := func(s *mux.Stream) { _ = s.Reset() }
	all := &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_AllWorkspaces{AllWorkspaces: &datamodelv1.AllWorkspaces{}}}
	everywhere := target("web", "")
	everywhere.GetTarget().WorkspaceScope = all
	for name, tt := range map[string]struct {
		status   mux.RelayStatus
		set      func(*world)
		messages []*sandboxv1.ForwardRequest
		want     codes.Code
	}{
		"no target":        {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{data(nil)}, codes.InvalidArgument},
		"a bad sandbox":    {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{target("127.0.0.1", "")}, codes.InvalidArgument},
		"a bad name":       {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{target("web", "80/tcp")}, codes.InvalidArgument},
		"all workspaces":   {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{everywhere}, codes.InvalidArgument},
		"two targets":      {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{target("web", ""), target("web", "")}, codes.InvalidArgument},
		"unknown sandbox":  {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{target("other", "")}, codes.NotFound},
		"unknown service":  {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{target("web", "other")}, codes.NotFound},
		"store":            {mux.RelayAccepted, func(w *world) { w.err = io.ErrUnexpectedEOF }, []*sandboxv1.ForwardRequest{target("web", "")}, codes.Unavailable},
		"not ready":        {mux.RelayAccepted, func(w *world) { w.open = false }, []*sandboxv1.ForwardRequest{target("web", "")}, codes.FailedPrecondition},
		"refused":          {mux.RelayRefused, nil, []*sandboxv1.ForwardRequest{target("web", "")}, codes.Unavailable},
		"too many":         {mux.RelayTooMany, nil, []*sandboxv1.ForwardRequest{target("web", "")}, codes.ResourceExhausted},
		"no session":       {mux.RelayAccepted, func(w *world) { _ = w.session.Close() }, []*sandboxv1.ForwardRequest{target("web", "")}, codes.Unavailable},
		"the service dies": {mux.RelayAccepted, nil, []*sandboxv1.ForwardRequest{target("web", "")}, codes.Aborted},
	} {
		serve := hangUp
		if name == "two targets" {
			serve = func(s *mux.Stream) { _, _ = io.Copy(io.Discard, s) }
		} else if tt.status != mux.RelayAccepted {
			serve = func(s *mux.Stream) { _ = s.Close() }
		}
		w := newWorld(t, tt.status, serve)
		if tt.set != nil {
			tt.set(w)
		}
		_, _, ended, err := rest(w.call(t, tt.messages...))
		// A reset may overtake the agent's answer.
		if got := status.Code(err); got != tt.want && !(tt.want == codes.Aborted && got == codes.Unavailable) || ended {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// A caller that leaves takes the connection with it, as a reset.
func TestCallerLeaves(t *testing.T) {
	ended := make(chan error, 1)
	w := newWorld(t, mux.RelayAccepted, func(s *mux.Stream) {
		_, err := io.Copy(io.Discard, s)
		ended <- err
	})
	ctx, cancel := context.WithCancel(context.Background())
	c, err := w.client.Forward(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Send(target("web", ""))
	if m, err := c.Recv(); err != nil || m.GetAccepted() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the service takes the connection for complete")
	}
}

// T25: a server that stops ends its calls, those that have said nothing too.
func TestClose(t *testing.T) {
	w := newWorld(t, mux.RelayAccepted, func(s *mux.Stream) { _, _ = io.Copy(io.Discard, s) })
	silent, busy := w.call(t), w.call(t, target("web", ""))
	if m, err := busy.Recv(); err != nil || m.GetAccepted() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	// Headers make the silent call known to the server.
	start := time.Now()
	w.server.Close()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("closed after %v", took)
	}
	for _, c := range []callStream{silent, busy, w.call(t)} {
		if _, err := c.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("a call ends with %v", err)
		}
	}
}
