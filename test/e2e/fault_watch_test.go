// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// reading is one answer. The gateway gave it at some instant between from and
// to: everything that is concluded from it allows for both, so that a poller
// or a gateway that did not get the CPU proves nothing wrong.
type reading struct {
	from, to time.Time
	health   sandbox.Health
	version  uint64 // of the service's record
}

func (r reading) String() string {
	age := ""
	if !r.health.LastChecked.IsZero() {
		age = fmt.Sprintf(" age %.3fs", r.to.Sub(r.health.LastChecked).Seconds())
	}
	return fmt.Sprintf("%s..%s %v/%s%s (%d fails)", r.from.Format("05.000"), r.to.Format("05.000"), r.health.State, r.health.Reason, age, r.health.Failures)
}

// younger returns the least age that the observation can have had when it was
// answered.
func (r reading) younger() time.Duration { return r.from.Sub(r.health.LastChecked) }

// source reads once what is watched.
type source func(ctx context.Context, c *sandbox.Client) (sandbox.Health, uint64, error)

// watch polls one service every 50 ms until the test ends. It fails the test
// when an answer breaks a rule.
type watch struct {
	t    *testing.T
	s    *site
	name string
	read source

	mu       sync.Mutex
	rules    []rule
	readings []reading
	errors   int
	failed   bool
	news     chan struct{} // closed at each reading, and replaced
}

// rule returns what is wrong with an answer, or "".
type rule func(r reading) string

// watch begins to poll a service.
func (s *site) watch(name string, rules ...rule) *watch {
	s.t.Helper()
	return s.watchBy("get "+name, getService(name), rules...)
}

func (s *site) watchBy(name string, read source, rules ...rule) *watch {
	s.t.Helper()
	w := &watch{t: s.t, s: s, name: name, read: read, rules: append(rules, neverStale), news: make(chan struct{})}
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		<-done
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", w.name, w.story())
		}
	})
	return w
}

// errNotListed is of a list that lacks what is stored: that is never right, also
// not for a gateway that has just started.
var errNotListed = errors.New("the service is not in the list")

// getService and listServices are the two ways in which the API tells health.
func getService(name string) source {
	return func(ctx context.Context, c *sandbox.Client) (sandbox.Health, uint64, error) {
		r, err := c.GetService(ctx, &openshellv1.GetServiceRequest{Sandbox: box, Name: name})
		return sandbox.HealthOf(r), r.GetEndpoint().GetMetadata().GetResourceVersion(), err
	}
}

func listServices(name string) source {
	return func(ctx context.Context, c *sandbox.Client) (h sandbox.Health, version uint64, err error) {
		for r, err := range c.Services(ctx, &openshellv1.ListServicesRequest{Sandbox: box}) {
			if err != nil {
				return h, 0, err
			}
			if r.GetEndpoint().GetName() == name {
				return sandbox.HealthOf(r), r.GetEndpoint().GetMetadata().GetResourceVersion(), nil
			}
		}
		return h, 0, errNotListed
	}
}

func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(kit.Poll)
	defer tick.Stop()
	var client *sandbox.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	for ctx.Err() == nil {
		err := error(nil)
		if client == nil {
			client, err = w.s.dial()
		}
		if err == nil {
			err = w.once(ctx, client)
		}
		if err != nil && ctx.Err() == nil {
			w.mu.Lock()
			w.errors++
			w.mu.Unlock()
			if client != nil { // a new one does not wait before it dials
				client.Close()
				client = nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (w *watch) once(ctx context.Context, c *sandbox.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r := reading{from: time.Now()}
	h, version, err := w.read(ctx, c)
	if errors.Is(err, errNotListed) {
		w.t.Errorf("%s: %v", w.name, err)
	}
	if err != nil {
		return err
	}
	r.to, r.health, r.version = time.Now(), h, version
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readings = append(w.readings, r)
	for _, rule := range w.rules {
		if wrong := rule(r); wrong != "" && !w.failed {
			w.failed = true
			w.t.Errorf("%s: %s: %v", w.name, wrong, r)
		}
	}
	close(w.news)
	w.news = make(chan struct{})
	return nil
}

// neverUnhealthy is for a target that answers well.
func neverUnhealthy(r reading) string {
	if r.health.State == sandbox.HealthUnhealthy {
		return "UNHEALTHY, and the target is good"
	}
	return ""
}

// neverHealthy is for a target that does not.
func neverHealthy(r reading) string {
	if r.health.State == sandbox.HealthHealthy {
		return "HEALTHY, and the target is bad"
	}
	return ""
}

// neverStale holds for every target: no verdict outlives its observation by 15
// seconds.
func neverStale(r reading) string {
	if r.health.State != sandbox.HealthUnknown && r.younger() >= 15*time.Second {
		return "a verdict on an observation of 15 s ago"
	}
	return ""
}

// neverAhead holds for a target that answers well: HEALTHY is at most 15 s
// older than an answer that it really gave, and no answer is said to be younger
// than it is. An attempt lasts at most 1 s, and speaks of its end; one that told
// nothing has an age too.
func neverAhead(x *target) rule {
	return func(r reading) string {
		at := x.lastAnswered()
		switch {
		case r.health.State != sandbox.HealthHealthy:
			return ""
		case r.from.Sub(at) > 16*time.Second:
			return "HEALTHY, and the target gave its last good answer " + r.from.Sub(at).String() + " before"
		case r.health.Reason == "OK" && r.health.LastChecked.Sub(at) > time.Second:
			return "said to be younger than the target's last good answer, by " + r.health.LastChecked.Sub(at).String()
		}
		return ""
	}
}

// good holds everything that can be said of a target that always answers well.
func good(x *target) []rule { return []rule{neverUnhealthy, neverAhead(x)} }

// latest returns the last reading; ok is false before the first.
func (w *watch) latest() (r reading, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.readings) == 0 {
		return r, false
	}
	return w.readings[len(w.readings)-1], true
}

// since returns the readings that began at or after an instant.
func (w *watch) since(at time.Time) (list []reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.readings {
		if !r.from.Before(at) {
			list = append(list, r)
		}
	}
	return list
}

// until waits for a reading that began after an instant and of which f says
// yes. It returns that one and the one before: what f asks for became true
// between before.from and now.to.
func (w *watch) until(limit time.Duration, after time.Time, what string, f func(reading) bool) (before, now reading) {
	w.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for i := 0; ; {
		w.mu.Lock()
		for ; i < len(w.readings); i++ {
			r := w.readings[i]
			if r.from.After(after) && f(r) {
				if before = r; i > 0 {
					before = w.readings[i-1]
				}
				w.mu.Unlock()
				return before, r
			}
		}
		news := w.news
		w.mu.Unlock()
		select {
		case <-news:
		case <-deadline.C:
			r, _ := w.latest()
			w.t.Fatalf("%s: waited %v for %s; last seen: %v", w.name, limit, what, r)
		}
	}
}

// gap is by how much the poll was late at worst, since an instant: whoever runs
// on the same machine may have waited as long for the CPU.
func (w *watch) gap(since time.Time) (worst time.Duration) {
	list := w.since(since)
	for i := range len(list) - 1 {
		worst = max(worst, list[i+1].to.Sub(list[i].from)-kit.Poll)
	}
	return worst
}

// unsure is how long after an instant the latest attempt was that the agent, by
// its own measure, was too late to judge; 0 if there was none by the end.
func (w *watch) unsure(since, end time.Time) (after time.Duration) {
	for _, r := range w.since(since) {
		if r.health.Reason == "Late" && r.from.Before(end) {
			after = r.health.LastChecked.Sub(since)
		}
	}
	if after > 0 {
		w.t.Logf("%s: the agent was too late to judge, %.1f s after", w.name, after.Seconds())
	}
	return after
}

// untilState waits for a state after an instant.
func (w *watch) untilState(limit time.Duration, after time.Time, want sandbox.HealthState) (before, now reading) {
	w.t.Helper()
	return w.until(limit, after, want.String(), func(r reading) bool { return r.health.State == want })
}

// story tells when the answer changed.
func (w *watch) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d readings, %d errors\n", len(w.readings), w.errors)
	for i, r := range w.readings {
		if i == 0 || i == len(w.readings)-1 || r.health.State != w.readings[i-1].health.State ||
			r.health.Reason != w.readings[i-1].health.Reason || r.health.Failures != w.readings[i-1].health.Failures {
			fmt.Fprintln(&b, r)
		}
	}
	return b.String()
}
