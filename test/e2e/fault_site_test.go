// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/e2e/faultkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// box is the name of a site's sandbox.
const box = "box"

// agentOps is where an agent of a site listens, in its own namespace.
const agentOps = "127.0.0.1:17692"

// site is a bed with a gateway and one sandbox: a network namespace in which an
// agent runs, and in whose loopback the test puts its targets.
type site struct {
	*bed
	ns      *faultkit.Namespace
	at      kit.Client
	gateway *kit.Process
	agent   *kit.Process
	// route is the gateway's address as the agent has it.
	route string
	lates *latenesses
}

// newSite starts a gateway, and makes a sandbox whose agent was not started.
func newSite(t *testing.T, gatewayArgs ...string) *site {
	t.Helper()
	s := &site{bed: newBed(t), ns: faultkit.NewNamespace(t), lates: &latenesses{}}
	s.gateway = s.bed.gateway(gatewayArgs...)
	s.locate()
	s.route = s.at.Socket
	s.cli("sandbox", "create", box)
	return s
}

// runningSite is newSite with the agent, over the unix socket.
func runningSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.startAgent()
	s.untilConnected(true, 20*time.Second)
	return s
}

// in returns the site for a subtest: what that makes ends with it.
func (s *site) in(t *testing.T) *site {
	sub := *s
	sub.bed = &bed{Bed: s.Bed, t: t, ctx: t.Context(), dir: s.dir, said: s.said}
	return &sub
}

func (s *site) locate() {
	s.t.Helper()
	var err error
	if s.at, err = s.Client(); err != nil {
		s.t.Fatal(err)
	}
}

// startAgent starts the sandbox's agent, which ends with the test.
func (s *site) startAgent(args ...string) {
	s.t.Helper()
	r, err := s.Sandbox(s.ctx, box)
	if err != nil {
		s.t.Fatal(err)
	}
	id := r.GetSandbox().GetMetadata().GetId()
	all := append([]string{
		"run", "--gateway", s.route, "--ca-file", filepath.Join(s.State, "ca.crt"), "--sandbox", id,
		"--token-file", filepath.Join(s.State, "sandboxes", id, "token"), "--ops-listen", agentOps,
	}, args...)
	var p *kit.Process
	err = s.ns.Do(func() (err error) {
		p, err = s.Start("sandbox-agent", all...)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.agent = p
	s.t.Cleanup(func() {
		if !p.Exited() {
			p.Kill()
		}
	})
}

// dial returns a client of the API.
func (s *site) dial() (*sandbox.Client, error) {
	options, err := sandbox.FromStateDir(s.State)
	if err != nil {
		return nil, err
	}
	return sandbox.Dial(s.ctx, options)
}

// client returns a client that ends with the test.
func (s *site) client() *sandbox.Client {
	s.t.Helper()
	c, err := s.dial()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// expose makes a target a service of the sandbox, with a readiness check if
// path is not empty.
func (s *site) expose(name string, port int, path string) {
	s.t.Helper()
	args := []string{"service", "expose", box, strconv.Itoa(port)}
	if name != "" {
		args = append(args, name)
	}
	if path != "" {
		args = append(args, "--readiness-path", path)
	}
	s.cli(args...)
}

// exposeAll is expose for many, named after their ports.
func (s *site) exposeAll(c *sandbox.Client, path string, targets ...*target) {
	s.t.Helper()
	for _, x := range targets {
		req := &openshellv1.ExposeServiceRequest{Sandbox: box, Name: serviceOf(x), TargetPort: uint32(x.port)}
		if path != "" {
			req.ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: path}
		}
		if _, err := c.ExposeService(s.ctx, req); err != nil {
			s.t.Fatal(err)
		}
	}
}

func serviceOf(x *target) string { return fmt.Sprintf("p%d", x.port) }

// metrics reads the metrics of a daemon, by series as they are written.
func metrics(ctx context.Context, c *http.Client, ops string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := get(ctx, c, ops+"/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if strings.HasPrefix(lines.Text(), "#") || i < 0 {
			continue
		}
		if all[lines.Text()[:i]], err = strconv.ParseFloat(lines.Text()[i+1:], 64); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func get(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return c.Do(req)
}

// agentMetrics reads the agent's metrics. Only late may do so in a test that
// calls late: one gauge counts from scrape to scrape.
func (s *site) agentMetrics() map[string]float64 {
	s.t.Helper()
	m, err := metrics(s.ctx, s.ns.HTTP(), "http://"+agentOps)
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// late is how late rounds of the agent began since an instant at which late was
// called, or before: on a busy machine, what the contract's times have to be
// lengthened by.
func (s *site) late(since time.Time) (late time.Duration) {
	s.t.Helper()
	m := s.agentMetrics()
	s.lates.mu.Lock()
	defer s.lates.mu.Unlock()
	s.lates.list = append(s.lates.list, lateness{time.Now(), time.Duration(m["sandbox_agent_round_lateness_seconds"] * float64(time.Second))})
	for _, l := range s.lates.list {
		if l.until.After(since) {
			late = max(late, l.late)
		}
	}
	return late
}

// latenesses are what late has read.
type latenesses struct {
	mu   sync.Mutex
	list []lateness
}

// lateness is how late rounds were since the one before it, or the start.
type lateness struct {
	until time.Time
	late  time.Duration
}

// agentStatus is what the tests need of an agent's /status.
type agentStatus struct {
	Gateway struct {
		Connected bool   `json:"connected"`
		LastError string `json:"last_error"`
	} `json:"gateway"`
}

func (s *site) agentStatus() (st agentStatus, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	r, err := get(ctx, s.ns.HTTP(), "http://"+agentOps+"/status")
	if err != nil {
		return st, err
	}
	defer r.Body.Close()
	return st, json.NewDecoder(r.Body).Decode(&st)
}

// untilConnected waits until the agent says that it has a session, or none.
func (s *site) untilConnected(want bool, limit time.Duration) {
	s.t.Helper()
	err := kit.Until(s.ctx, limit, fmt.Sprintf("connected %v", want), func() (bool, string) {
		st, err := s.agentStatus()
		return err == nil && st.Gateway.Connected == want, fmt.Sprint(st, err)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// during lets time pass in which something is to hold, which a watch looks at.
func (s *site) during(d time.Duration) {
	s.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		s.t.Fatal(s.ctx.Err())
	}
}

// long reports whether faults are to last as long as in the contract, rather
// than as long as a run of CI can wait.
func long() bool { return os.Getenv("E2E_LONG") != "" }
