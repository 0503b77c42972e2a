// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// streamed collects what a handler writes; it can be read while it is written.
type streamed struct {
	mu     sync.Mutex
	text   strings.Builder
	header http.Header
}

func (s *streamed) Header() http.Header { return s.header }
func (s *streamed) WriteHeader(int)     {}
func (s *streamed) Flush()              {}

func (s *streamed) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take returns the messages since the last call.
func (s *streamed) take(t *testing.T) (list []message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for event := range strings.SplitSeq(strings.TrimSuffix(s.text.String(), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			continue
		}
		var m message
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Errorf("%q: %v", event, err)
		}
		list = append(list, m)
	}
	s.text.Reset()
	return list
}

// stream opens an event stream in the bubble; end ends it.
func (w *world) stream(lines ...string) (s *streamed, end func()) {
	s = &streamed{header: make(http.Header)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ServeHTTP(s, request("GET", "/page/events", "", lines...).WithContext(ctx))
	}()
	testkit.Wait()
	return s, func() { cancel(); <-done }
}

func TestFullStateThenChangesThenHeartbeats(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(onLoopback)
		messages := make(chan *sandboxv1.WatchServicesResponse)
		w.watch = func(ctx context.Context, send func(*sandboxv1.WatchServicesResponse) error) error {
			for {
				select {
				case m := <-messages:
					if err := send(m); err != nil {
						return err
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		s, end := w.stream()
		defer end()
		first := s.take(t)
		if len(first) != 1 || !first[0].Complete || len(first[0].Services) != 1 || first[0].Sandboxes == nil {
			t.Fatalf("the full state is %+v", first)
		}
		got := first[0].Services[0]
		if got.State != "HEALTHY" || got.Check != "/ready" || *got.Age != 1500 || got.Recorded != 60000 || len(got.Transitions) != 1 ||
			got.Transitions[0].At != 30000 || got.Transitions[0].State != "HEALTHY" || got.Transitions[0].Cause != "REPORT" {
			t.Errorf("the service is %+v", got)
		}
		if box := (*first[0].Sandboxes)[0]; box != (sandbox{"default", "idle", "STOPPED", "the sandbox is stopped"}) {
			t.Errorf("the sandbox is %+v", box)
		}

		testkit.Advance(time.Minute)
		messages <- &sandboxv1.WatchServicesResponse{Complete: true, Services: []*sandboxv1.WatchedService{watched(1, unhealthy)}}
		testkit.Wait()
		if m := s.take(t); len(m) != 1 || m[0].Services[0].State != "UNHEALTHY" || m[0].Sandboxes != nil {
			t.Errorf("the change is %+v", m)
		}
		messages <- &sandboxv1.WatchServicesResponse{Complete: true, Removed: []uint32{1}, Ages: []*sandboxv1.ServiceAge{{Number: 2, AgeMs: 900}}}
		testkit.Wait()
		if m := s.take(t); len(m) != 1 || m[0].Removed[0] != 1 || m[0].Ages[0] != [2]uint32{2, 900} || m[0].Sandboxes == nil {
			t.Errorf("the heartbeat is %+v", m)
		}
		// Viewers share a fresh list; one that cannot be had is not sent.
		s2, end2 := w.stream()
		defer end2()
		if m := s2.take(t); m[0].Sandboxes == nil || w.lists != 2 {
			t.Errorf("%d lists after 2 viewers: %+v", w.lists, m)
		}
		w.listErr = errors.New("down")
		testkit.Advance(listFresh)
		for range 2 {
			messages <- &sandboxv1.WatchServicesResponse{Complete: true}
		}
		testkit.Wait()
		if m := append(s.take(t), s2.take(t)...); len(m) != 2 || m[0].Sandboxes != nil || m[1].Sandboxes != nil || w.lists != 3 {
			t.Errorf("%d lists, %+v", w.lists, m)
		}
	})
}

func TestStreamEnds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		// With the cookie, though the clock of cookies is another one.
		w := newWorld()
		value := w.cookies.issue("localhost:17680", w.now.Add(time.Hour))
		s, end := w.stream("Cookie: "+Cookie+"="+value, "From: 192.0.2.1:1")
		if len(s.take(t)) != 1 {
			t.Error("no full state")
		}
		testkit.Advance(time.Hour + time.Second)
		if w.viewers != 0 {
			t.Error("the stream outlives its cookie")
		}
		end()
		// With the watch, which says why.
		w = newWorld(onLoopback)
		w.watch = func(context.Context, func(*sandboxv1.WatchServicesResponse) error) error {
			return errors.New("the gateway is stopping")
		}
		s, end = w.stream()
		end()
		if !strings.HasSuffix(s.text.String(), "event: problem\ndata: {\"text\":\"the gateway is stopping\"}\n\n") {
			t.Errorf("it ends with %q", s.text.String())
		}
	})
}

func TestTooManyViewers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(onLoopback)
		var ends []func()
		for range MaxViewers {
			_, end := w.stream()
			ends = append(ends, end)
		}
		if got := w.ask(request("GET", "/page/events", "")); got.Code != 503 || got.Header().Get("Retry-After") == "" {
			t.Errorf("one more: %d", got.Code)
		}
		for _, end := range ends {
			end()
		}
		if got := w.ask(request("GET", "/page/events", "")); got.Code != 200 || w.viewers != 0 {
			t.Errorf("after all have left: %d, %d viewers", got.Code, w.viewers)
		}
	})
}

// A viewer that does not read delays no other, and is dropped.
func TestSlowViewer(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(onLoopback)
		w.watch = func(ctx context.Context, send func(*sandboxv1.WatchServicesResponse) error) error {
			beat := time.NewTicker(4 * time.Second)
			defer beat.Stop()
			for {
				select {
				case <-beat.C:
					if err := send(&sandboxv1.WatchServicesResponse{Complete: true}); err != nil {
						return err
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		srv := &http.Server{Handler: w}
		served := make(chan struct{})
		go func() { defer close(served); srv.Serve(l) }()
		slow := l.get(t)
		defer slow.Close()
		quick := l.get(t)
		defer quick.Close()
		read := bufio.NewReader(quick)
		began, beats := time.Now(), 0
		for beats < 10 {
			line, err := read.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "data: ") {
				beats++
			}
		}
		if took := time.Since(began); took > 9*4*time.Second {
			t.Errorf("ten messages took %v", took)
		}
		w.Server.mu.Lock()
		if w.viewers != 1 {
			t.Errorf("%d viewers after %v; want the quick one", w.viewers, time.Since(began))
		}
		w.Server.mu.Unlock()
		srv.Close()
		<-served
		testkit.Wait()
	})
}

// pipes is a listener of connections without a buffer.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type loopbackConn struct{ net.Conn }

func (loopbackConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 17680} }

// get asks for the events over a connection of its own.
func (p *pipes) get(t *testing.T) net.Conn {
	client, server := net.Pipe()
	p.conns <- loopbackConn{server}
	if _, err := io.WriteString(client, "GET /page/events HTTP/1.1\r\nHost: localhost:17680\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return client
}
