// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// served serves a world on loopback TCP until the test ends.
func (w *world) served() sandboxv1.ServiceHealthWatchClient {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	server := grpc.NewServer()
	sandboxv1.RegisterServiceHealthWatchServer(server, w)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	// A window that does not grow with the measured bandwidth: what a client that
	// does not read takes in is then the same on every machine.
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	return sandboxv1.NewServiceHealthWatchClient(conn)
}

// reader is a client that reads as long as it is let.
type reader struct {
	stream grpc.ServerStreamingClient[sandboxv1.WatchServicesResponse]

	mu     sync.Mutex
	mirror mirror
	count  int
	news   chan struct{} // closed by the next message, then replaced
	end    error
}

func newReader(t *testing.T, ctx context.Context, api sandboxv1.ServiceHealthWatchClient) *reader {
	t.Helper()
	stream, err := api.WatchServices(ctx, &sandboxv1.WatchServicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{stream: stream, news: make(chan struct{})}
}

// read takes in one message.
func (r *reader) read() error {
	m, err := r.stream.Recv()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end = err; err == nil {
		r.mirror.take(m)
		r.count++
	}
	close(r.news)
	r.news = make(chan struct{})
	return err
}

// until waits until the client holds exactly these services.
func (r *reader) until(t *testing.T, services ...string) {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		r.mu.Lock()
		held, next, end := slices.Sorted(maps.Values(r.mirror.services)), r.news, r.end
		r.mu.Unlock()
		if slices.Equal(held, services) {
			return
		}
		if end != nil {
			t.Fatalf("the watch has ended with %v", end)
		}
		select {
		case <-next:
		case <-limit.C:
			t.Fatalf("a watch holds %q, want %q", held, services)
		}
	}
}

// Over real connections: of 50 watches one reads nothing, until its stream is
// full and the server waits for it. Every change reaches the others; then it
// goes on and gets the newest.
func TestStoppedClient(t *testing.T) {
	w := newWorld(t)
	w.put("web", nil)
	w.expose("web", "")
	w.services["id-web"][0].HasCheck, w.services["id-web"][0].Path = true, "/"+strings.Repeat("x", 1000)
	w.start()
	w.connect("web", "a")
	w.report("web", probe.Healthy, probe.OK)
	api := w.served()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var others []*reader
	var reading sync.WaitGroup
	for range 49 {
		r := newReader(t, ctx, api)
		reading.Go(func() {
			for r.read() == nil {
			}
		})
		others = append(others, r)
	}
	stopped := newReader(t, ctx, api)
	if err := stopped.read(); err != nil {
		t.Fatal(err)
	}
	const rounds = 150 // some 1,300 bytes each: far more than a stream buffers
	var slowest time.Duration
	for i := range rounds {
		state, reason, words := probe.Unhealthy, probe.Refused, "web/ UNHEALTHY Refused"
		if i%2 == 1 {
			state, reason, words = probe.Healthy, probe.OK, "web/ HEALTHY OK"
		}
		changed := time.Now()
		w.report("web", state, reason)
		waiting := others[:1] // so that changes are not taken together
		if i%50 >= 48 {
			waiting = others
		}
		for _, r := range waiting {
			r.until(t, words)
		}
		if i%50 == 49 {
			slowest = max(slowest, time.Since(changed))
		}
	}
	t.Logf("a change reached 49 watches within %v", slowest)
	// The newest is told last, and what came and went meanwhile is not told.
	w.expose("web", "end")
	reading.Go(func() {
		for stopped.read() == nil {
		}
	})
	stopped.until(t, "web/ HEALTHY OK", "web/end UNKNOWN NotObserved")
	if stopped.count >= rounds {
		t.Errorf("the stopped watch was sent %d messages for %d changes", stopped.count, rounds)
	}
	w.Close()
	reading.Wait()
	for _, r := range append(others, stopped) {
		if status.Code(r.end) != codes.Unavailable || len(r.mirror.faults) != 0 {
			t.Errorf("a watch has ended with %v; faults: %q", r.end, slices.Compact(r.mirror.faults))
		}
	}
}
