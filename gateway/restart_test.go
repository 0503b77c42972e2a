// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// T26: gateways come and go on the same sockets; every question over a new
// connection is answered, by one or by the next.
func TestRestartsRefuseNobody(t *testing.T) {
	t.Run("HTTP", func(t *testing.T) {
		restarts(t, SocketHTTP, func(addr string) error {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
			resp, err := client.Get("http://" + addr + "/livez")
			if err == nil {
				resp.Body.Close()
			}
			return err
		})
	})
	t.Run("gRPC", func(t *testing.T) {
		restarts(t, SocketGRPC, func(addr string) error {
			// A gateway makes its certificate when it first starts.
			anybody := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
			conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(anybody))
			if err != nil {
				return err
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			return err
		})
	})
}

// restarts runs 20 gateways, one after the other, on one socket, while four
// askers ask.
func restarts(t *testing.T, socket string, ask func(addr string) error) {
	held := bind(t, "tcp", "127.0.0.1:0")
	cfg := DefaultConfig()
	cfg.StateDir, cfg.DrainGrace = filepath.Join(t.TempDir(), "state"), 0
	cfg.GRPCListen, cfg.HTTPListen, cfg.SupervisorListen, cfg.OpsListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	life := func() {
		cfg.Inherited = map[string][]net.Listener{socket: {dup(t, held)}}
		g, err := New(t.Context(), cfg, testkit.Logger(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := g.Run(ctx, Hooks{Ready: cancel}); err != nil {
			t.Error(err)
		}
	}
	stop, idle := make(chan struct{}), make(chan struct{})
	var asking sync.WaitGroup
	var answered atomic.Int64
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := ask(held.Addr().String()); err != nil {
					t.Error(err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for range 20 {
		life()
	}
	close(stop)
	go func() { asking.Wait(); close(idle) }()
	for { // for those who still wait
		select {
		case <-idle:
			t.Logf("%d questions were answered", answered.Load())
			return
		default:
			life()
		}
	}
}

// The entrance closes behind the last who was accepted.
func TestEntranceWaitsForThoseOutside(t *testing.T) {
	e := newEntrance(bind(t, "tcp", "127.0.0.1:0"))
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := e.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	visitor, err := net.Dial("tcp", e.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer visitor.Close()
	outside := <-accepted
	defer outside.Close()
	shut := make(chan struct{})
	go func() { defer close(shut); e.shut(context.Background()) }()
	<-accepted // Accept has failed
	select {
	case <-shut:
		t.Fatal("shut while somebody was outside")
	default:
	}
	e.entered(outside)
	<-shut
	// One who never enters holds it up no longer than the caller wants.
	e.outside[outside] = true
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.shut(ctx)
}
