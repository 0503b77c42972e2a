// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/e2e/faultkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// What goes through a relay is what was sent: 1 GiB down and up over the unix
// socket, a quarter of it over TLS.
func TestRelayBytes(t *testing.T) {
	for name, size := range map[string]int64{"unix": 1 << 30, "tls": 256 << 20} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if name == "tls" {
				s, _ = linkedSite(t)
			}
			s.startAgent()
			s.untilConnected(true, 20*time.Second)
			s.expose("", s.server(sums), "")
			u := s.user()
			began := time.Now()
			resp, err := u.do("GET", "", fmt.Sprint("/", size), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			sum := sha256.New()
			n, err := io.Copy(sum, resp.Body)
			if got := fmt.Sprintf("%x", sum.Sum(nil)); n != size || err != nil || got != resp.Trailer.Get("Sum") {
				t.Errorf("%d of %d bytes came, %v; their hash is %s, sent was %s", n, size, err, got, resp.Trailer.Get("Sum"))
			}
			down := time.Since(began)
			began = time.Now()
			sum.Reset()
			resp, err = u.do("PUT", "", "/", io.TeeReader(io.LimitReader(newPattern(2), size), sum))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if want := fmt.Sprintf("%d <nil> %x", size, sum.Sum(nil)); string(got) != want || err != nil {
				t.Errorf("the upload arrived as %s, %v, want %s", got, err, want)
			}
			mb := float64(size) / 1e6
			t.Logf("%.0f MB: down %.0f MB/s, up %.0f MB/s", mb, mb/down.Seconds(), mb/time.Since(began).Seconds())
		})
	}
}

// Downloads that are given up leave descriptors and goroutines of both daemons
// as they were.
func TestRelayAborts(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	s.expose("", s.server(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) }), "")
	u := s.user()
	abort := func() {
		resp, err := u.do("GET", "", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
		resp.Body.Close()
	}
	abort()
	type size struct{ gatewayFDs, agentFDs, gatewayGoroutines, agentGoroutines int }
	outside := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	measure := func() size {
		return size{
			faultkit.Descriptors(t, s.gateway.Pid()), faultkit.Descriptors(t, s.agent.Pid()),
			goroutines(t, outside, s.at.Ops), goroutines(t, s.ns.HTTP(), "http://"+agentOps),
		}
	}
	flat := func(a, b size) bool {
		const slack = 3 // of what goes on besides: an attempt, a scrape
		return a.gatewayFDs <= b.gatewayFDs+slack && a.agentFDs <= b.agentFDs+slack &&
			a.gatewayGoroutines <= b.gatewayGoroutines+slack && a.agentGoroutines <= b.agentGoroutines+slack
	}
	s.during(3 * time.Second)
	before := measure()
	for range 200 {
		abort()
	}
	err := kit.Until(s.ctx, 20*time.Second, "both daemons to be as before", func() (bool, string) {
		now := measure()
		return flat(now, before), fmt.Sprintf("%+v, before %+v", now, before)
	})
	if err != nil {
		t.Error(err)
	}
	m, err := metrics(s.ctx, outside, s.at.Ops)
	if err != nil || m["sandbox_gateway_relays"] > 1 {
		t.Errorf("%v relays are open, %v", m["sandbox_gateway_relays"], err)
	}
}

// T21: the reply arrives after the end of the question, through the command
// line's tunnel, the API, the session and the agent.
func TestRelayHalfClose(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	l, err := s.ns.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				question, _ := io.ReadAll(c)
				_, _ = fmt.Fprintf(c, "reply to %d bytes", len(question))
			}()
		}
	}()
	s.expose("", l.Addr().(*net.TCPAddr).Port, "")
	addr := s.forward()
	for _, size := range []int{0, 10, 3 << 20} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(c)
		if want := fmt.Sprintf("reply to %d bytes", size); string(got) != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		c.Close()
	}
}

// forward runs sandboxctl service forward until the test ends, and returns where
// it listens.
func (s *site) forward() string {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.Bin, "sandboxctl"), "service", "forward", box, "--state-dir", s.State)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("an interrupted forward: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if fields := strings.Fields(line); err == nil && len(fields) > 1 {
		return fields[1]
	}
	s.t.Fatalf("it says %q, %v", line, err)
	return ""
}

// T19: a relay to an agent that stands still fails within two seconds, and says
// why; once the agent runs again, so do relays.
func TestT19RelayToAStoppedAgent(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	s.expose("", s.server(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }), "")
	u := s.user()
	if status, _, body := u.text("", "/"); status != 200 || body != "here" {
		t.Fatalf("%d %q", status, body)
	}
	s.during(2 * time.Second) // for relays that are kept
	faultkit.Pause(t, s.agent.Pid())
	began := time.Now()
	status, reason, body := u.text("", "/")
	if took := time.Since(began); status != 502 || reason != "NoAnswer" || took > 2*time.Second {
		t.Errorf("%d %s after %v: %q", status, reason, took, body)
	}
	faultkit.Resume(t, s.agent.Pid())
	if status, _, _ := u.text("", "/"); status != 200 {
		t.Errorf("%d after the agent went on", status)
	}
}

// Health gates nothing; a sandbox that is stopped, a service that is not there,
// a port on which nobody listens and, T23, the agent's own are told apart.
func TestRelayProblems(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	var ready atomic.Bool
	port := s.server(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" && !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "served")
	})
	closed, err := s.ns.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	s.expose("sick", port, "/readyz")
	s.expose("closed", closed.Addr().(*net.TCPAddr).Port, "")
	s.expose("self", 17692, "")
	u := s.user()
	s.until(30*time.Second, box, "sick", "UNHEALTHY")
	for service, want := range map[string]string{"sick": "200 ", "closed": "502 Refused", "self": "502 Forbidden", "other": "404 NoService"} {
		status, reason, body := u.text(service, "/")
		if got := fmt.Sprint(status, " ", reason); got != want {
			t.Errorf("%s: %s %q, want %s", service, got, body, want)
		}
	}
	// A service is reached as soon as it is exposed.
	for i := range 10 {
		name := fmt.Sprint("new", i)
		s.expose(name, port, "")
		if status, reason, body := u.text(name, "/"); status != 200 {
			t.Errorf("%s: %d %s %q", name, status, reason, body)
		}
	}
	s.cli("sandbox", "stop", box)
	if status, reason, body := u.text("sick", "/"); status != 412 || reason != "NotReady" || !strings.Contains(body, "is stopped") {
		t.Errorf("stopped: %d %s %q", status, reason, body)
	}
}

// An agent that is told to stop lets open relays end, for five seconds, and
// takes no new ones.
func TestRelaysWhenTheAgentStops(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	goOn := make(chan struct{})
	s.expose("", s.server(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "first ")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/ends" {
			<-goOn
		} else {
			<-r.Context().Done()
		}
		fmt.Fprint(w, "last")
	}), "")
	u := s.user()
	first := func(path string) *http.Response {
		resp, err := u.do("GET", "", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if _, err := io.ReadFull(resp.Body, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	ends, stays := first("/ends"), first("/stays")
	began := time.Now()
	if err := s.agent.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until(5*time.Second, box, "", "UNKNOWN/SupervisorDisconnected")
	if status, reason, _ := u.text("", "/new"); status != 502 || reason != "Stopping" {
		t.Errorf("a new relay: %d %s", status, reason)
	}
	close(goOn)
	if rest, err := io.ReadAll(ends.Body); string(rest) != "last" || err != nil {
		t.Errorf("the response that ends: %q, %v", rest, err)
	}
	if rest, err := io.ReadAll(stays.Body); err == nil {
		t.Errorf("the response that stays is passed off as complete: %q", rest)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	select {
	case <-s.agent.Done():
	case <-ctx.Done():
		t.Fatal("the agent does not end")
	}
	if took := time.Since(began); took < 4*time.Second || took > 9*time.Second {
		t.Errorf("the agent ended after %v", took)
	}
	if code, err := s.agent.Stop(); code != 0 {
		t.Errorf("the agent ended with %d, %v", code, err)
	}
}

// T25: a gateway that is told to stop ends, with all kinds of connections open.
func TestGatewayStopsWithRelaysOpen(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	s.expose("", s.server(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, brw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(io.Discard, brw)
			return
		}
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/events" {
			<-r.Context().Done()
		}
	}), "")
	_, addr, _ := strings.Cut(s.at.HTTP, "://")
	open := func(request string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = fmt.Fprintf(c, "GET %s\r\n\r\n", strings.ReplaceAll(request, "HOST", hostOf("")))
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 1") && !strings.HasPrefix(line, "HTTP/1.1 2") {
			t.Fatalf("%q: %q, %v", request, line, err)
		}
	}
	open("/ HTTP/1.1\r\nHost: HOST") // and idle
	open("/events HTTP/1.1\r\nHost: HOST")
	open("/ HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket")
	tunnel, err := net.Dial("tcp", s.forward())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tunnel.Close() })
	_, _ = io.WriteString(tunnel, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := tunnel.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	code, err := s.gateway.Stop()
	if took := time.Since(began); code != 0 || err != nil || took > 15*time.Second {
		t.Errorf("the gateway ended with %d, %v, after %v", code, err, took)
	} else {
		t.Logf("the gateway ended after %v", took)
	}
}
