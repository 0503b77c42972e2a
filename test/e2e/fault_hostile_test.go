// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/e2e/faultkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// spill writes a text for as long as the peer takes it.
func spill(begin, again string) behaviour {
	return func(x *target, c net.Conn) {
		more := bytes.Repeat([]byte(again), 1+(64<<10)/len(again))
		_, err := io.WriteString(c, begin)
		for err == nil {
			_, err = c.Write(more)
		}
	}
}

// say writes a text and hangs up.
func say(text string) behaviour {
	return func(x *target, c net.Conn) { io.WriteString(c, text) }
}

const marker = "EVIL\x1b[31mMARKER"

// hostile are servers that no prober likes, and what is to become of them.
func hostile() []struct {
	name   string
	path   string
	does   behaviour
	silent bool // speaks before it is asked
	state  sandbox.HealthState
	reason string
} {
	ok, bad := sandbox.HealthHealthy, sandbox.HealthUnhealthy
	return []struct {
		name   string
		path   string
		does   behaviour
		silent bool
		state  sandbox.HealthState
		reason string
	}{
		{"T03 endless body", "", spill("HTTP/1.1 200 OK\r\n\r\n", marker), false, ok, "OK"},
		{"T03 endless body of a failure", "/ready", spill("HTTP/1.1 500 Oh\r\n\r\n", marker), false, bad, "BadStatus"},
		{"T03 endless events", "/ready", spill("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "data: x\n\n"), false, ok, "OK"},
		{"T03 endless chunks", "", spill("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n"), false, ok, "OK"},
		{"T03 truncated chunk", "", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc"), false, ok, "OK"},
		{"T04 SSH banner", "", say("SSH-2.0-" + marker + "\r\n"), true, bad, "NotHTTP"},
		{"T04 endless babble", "", spill("", marker+"\r\n"), true, bad, "NotHTTP"},
		{"T04 TLS port", "", say("\x15\x03\x03\x00\x02\x02\x46"), false, bad, "NotHTTP"}, // an alert
		{"T04 HTTP/2 only", "", say("\x00\x00\x12\x04\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 18)), true, bad, "NotHTTP"},
		{"T30 endless headers", "", spill("HTTP/1.1 200 OK\r\n", "X-Evil: "+marker+"\r\n"), false, bad, "HeadersTooLarge"},
		{"T30 endless header", "", spill("HTTP/1.1 200 OK\r\nX-Evil: ", marker), false, bad, "HeadersTooLarge"},
		{"T30 endless interim answers", "", spill("", "HTTP/1.1 103 Early\r\nX-Evil: x\r\n\r\n"), false, bad, "HeadersTooLarge"},
		{"headers byte by byte", "", trickle, false, bad, "Timeout"},
	}
}

// trickle never gets to the end of its headers.
func trickle(x *target, c net.Conn) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Evil: "); err == nil; _, err = io.WriteString(c, "x") {
		select {
		case <-tick.C:
		case <-x.closed:
			return
		}
	}
}

// T03, T04 and T30 through the whole chain: the right verdict on each, nothing
// of what they say in any text, and neither descriptors nor goroutines nor
// memory grow.
func TestT03T04T30Hostile(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	kinds := hostile()
	const copies = 6 // so that many attempts are made in little time
	targets := map[string][]*target{}
	watches := map[string]*watch{}
	x := s.target(answer(200))
	s.exposeAll(client, "", x)
	s.watch(serviceOf(x), good(x)...)
	for _, k := range kinds {
		forbid := neverUnhealthy
		if k.state == sandbox.HealthUnhealthy {
			forbid = neverHealthy
		}
		for range copies {
			x := s.target(k.does)
			x.mu.Lock()
			x.silent = k.silent
			x.mu.Unlock()
			targets[k.name] = append(targets[k.name], x)
		}
		s.exposeAll(client, k.path, targets[k.name]...)
		watches[k.name] = s.watch(serviceOf(targets[k.name][0]), forbid, noMarker)
	}
	began := time.Now()
	attempts := func() (least int) {
		least = 1 << 30
		for _, list := range targets {
			n := 0
			for _, x := range list {
				n += x.count()
			}
			least = min(least, n)
		}
		return least
	}
	for _, k := range kinds {
		_, now := watches[k.name].untilState(90*time.Second, time.Time{}, k.state)
		if now.health.Reason != k.reason {
			t.Errorf("%s: %v, want %s", k.name, now, k.reason)
		}
	}
	// By now everything has been used that is going to be used.
	before := s.usage()
	rounds, want := 4, 4*copies
	if long() {
		rounds, want = 1000/copies, 1000
	}
	n := attempts()
	s.during(time.Duration(rounds) * interval)
	if got := attempts() - n; got < want*9/10 {
		t.Errorf("%d attempts on the least asked kind, want %d", got, want)
	}
	t.Logf("%d attempts at least on each kind in %v", attempts(), time.Since(began).Round(time.Second))
	s.flat("agent", before, s.usage(), copies)
	s.noMarkers()
}

// Services that come, go and change their minds, for a while: neither daemon
// grows, and a good neighbour stays HEALTHY.
func TestFlapping(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	client := s.client()
	const flappers = 20
	x := s.target(answer(200))
	s.exposeAll(client, "", x)
	w := s.watch(serviceOf(x), good(x)...)
	var list []*target
	for range flappers {
		list = append(list, s.target(answer(200)))
	}
	s.exposeAll(client, "", list...)
	w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	gateway := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	usages := func() (agent, gw usage) {
		var wg sync.WaitGroup
		wg.Go(func() { agent = s.usage() })
		wg.Go(func() { gw = s.usageOf(s.gateway, gateway, s.at.Ops) })
		wg.Wait()
		return agent, gw
	}
	agentBefore, gatewayBefore := usages()
	lasting := 40 * time.Second
	if long() {
		lasting = 10 * time.Minute
	}
	began := time.Now()
	s.late(began)
	rng := rand.New(rand.NewPCG(1, 2))
	changes := 0
	for deadline := time.Now().Add(lasting); time.Now().Before(deadline); changes++ {
		x := list[rng.IntN(flappers)]
		switch rng.IntN(6) {
		case 0:
			x.unlisten()
			x.listen()
		case 1:
			s.exposeAll(client, fmt.Sprintf("/%d", changes), x) // another configuration
		case 2:
			x.turn(hang)
		case 3:
			x.turn(answer(500))
		default:
			x.turn(answer(200))
		}
		s.during(100 * time.Millisecond)
	}
	agentAfter, gatewayAfter := usages()
	t.Logf("%d changes, %d attempts on the first", changes, list[0].count())
	s.flat("agent", agentBefore, agentAfter, flappers)
	s.flat("gateway", gatewayBefore, gatewayAfter, flappers)
	s.youngerThan(w, began, 6*time.Second)
}

// usage is what a process uses.
type usage struct {
	descriptors, goroutines int
	resident                int64
}

func (u usage) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %.1f MiB", u.descriptors, u.goroutines, float64(u.resident)/(1<<20))
}

// usage returns the least that the agent was seen to use in two rounds: what is
// in flight comes and goes.
func (s *site) usage() usage { return s.usageOf(s.agent, s.ns.HTTP(), "http://"+agentOps) }

func (s *site) usageOf(p *kit.Process, client *http.Client, ops string) usage {
	s.t.Helper()
	least := usage{1 << 30, 1 << 30, 1 << 60}
	tick := time.NewTicker(kit.Poll)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * interval); time.Now().Before(deadline); <-tick.C {
		least.descriptors = min(least.descriptors, faultkit.Descriptors(s.t, p.Pid()))
		least.goroutines = min(least.goroutines, s.goroutines(client, ops))
		least.resident = min(least.resident, faultkit.Resident(s.t, p.Pid()))
	}
	return least
}

// goroutines counts those of a daemon.
func (s *site) goroutines(client *http.Client, ops string) (n int) {
	s.t.Helper()
	r, err := get(s.ctx, client, ops+"/debug/pprof/goroutine?debug=1")
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := fmt.Fscanf(r.Body, "goroutine profile: total %d", &n); err != nil || r.StatusCode != http.StatusOK {
		s.t.Fatalf("status %d, %v", r.StatusCode, err)
	}
	return n
}

// flat checks that a daemon has not grown, but for what may be in flight.
func (s *site) flat(who string, before, after usage, inFlight int) {
	s.t.Helper()
	s.t.Logf("%s: at first %v, at last %v", who, before, after)
	if after.descriptors > before.descriptors+inFlight || after.goroutines > before.goroutines+4*inFlight ||
		after.resident > before.resident+8<<20 || after.resident > 96<<20 {
		s.t.Errorf("%s grows: %v, was %v", who, after, before)
	}
}

// noMarker is a rule: nothing that a target says is in an answer.
func noMarker(r reading) string {
	if strings.Contains(fmt.Sprintf("%+v", r.health), "MARKER") || strings.Contains(r.health.Message, "\x1b") {
		return "says what the target said"
	}
	return ""
}

// noMarkers looks for what targets say in everything that people see.
func (s *site) noMarkers() {
	s.t.Helper()
	seen := map[string]string{
		"table": s.cli("service", "list", box), "json": s.cli("service", "list", box, "-o", "json"), "log": s.said(),
	}
	for _, path := range []string{"/status", "/metrics"} {
		r, err := get(s.ctx, s.ns.HTTP(), "http://"+agentOps+path)
		if err != nil {
			s.t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		seen[path] = string(b)
	}
	for what, text := range seen {
		if text == "" || strings.Contains(text, "MARKER") || strings.Contains(text, "EVIL") || strings.Contains(text, "\x1b") {
			s.t.Errorf("%s shows what a target said, or nothing", what)
		}
	}
}
