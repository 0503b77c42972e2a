// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report"
)

func newLink(t *testing.T, d *mux.Dialer) *link {
	tracker, logger := report.NewTracker(), testkit.Logger(t)
	return &link{
		open: d.Dial, tracker: tracker, scheduler: probe.NewScheduler(probe.SchedulerConfig{}), logger: logger, counts: &counts{},
		relays: newRelays(nil, tracker, logger),
	}
}

// runLink runs a link until the returned function is called.
func runLink(t *testing.T, l *link) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	return func() { cancel(); <-done }
}

// eventually looks until f says yes.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); !f(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestClockBehind holds T17: an agent whose clock is behind redials for ever,
// says both times, counts it, and is there when the clock is right.
func TestClockBehind(t *testing.T) {
	handler, sessions := muxtest.Accept(t, mux.Config{})
	gw := muxtest.Serve(t, handler)
	d := gw.Dialer(gw.HTTPS)
	var right atomic.Bool
	d.TLS.Time = func() time.Time {
		if right.Load() {
			return time.Now()
		}
		return time.Date(1999, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	l := newLink(t, d)
	defer runLink(t, l)()
	eventually(t, "three dials in vain", func() bool { return l.counts.failures[failedClock].Load() >= 3 })
	live, _, err := l.status()
	if live || err == nil {
		t.Fatalf("live %v, error %v", live, err)
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok || !strings.Contains(err.Error(), "1999-01-02T03:04:05Z") || !strings.Contains(err.Error(), invalid.Cert.NotBefore.Format(time.RFC3339)) {
		t.Errorf("the error does not name both times: %v", err)
	}
	right.Store(true)
	select {
	case <-sessions:
	case <-time.After(30 * time.Second):
		t.Fatal("no session once the clock was right")
	}
}

// TestSuspensionCutsTheWait: an agent that waits for its next dial does not go
// on waiting after a suspension, and its backoff begins anew; after a short
// one, it does.
func TestSuspensionCutsTheWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var dialled atomic.Int64
		dials := func() int { return int(dialled.Load()) }
		d := &mux.Dialer{Gateway: "unix:/nowhere", Instance: "i", Version: "v"}
		d.Token = func() (secret.String, error) {
			dialled.Add(1)
			return secret.String{}, errors.New("no token")
		}
		l := newLink(t, d)
		stop := runLink(t, l)
		testkit.Advance(5 * time.Minute)
		for range 5 { // the wait at the cap is longer than 7 s
			n := dials()
			for dials() == n {
				testkit.Advance(50 * time.Millisecond)
			}
			n = dials()
			l.suspended(9 * time.Second)
			testkit.Advance(5 * time.Second)
			if dials() != n {
				t.Error("a short suspension has cut the wait")
			}
			l.suspended(10 * time.Second)
			testkit.Advance(250 * time.Millisecond)
			if dials() != n+1 {
				t.Errorf("%d dials in the 250 ms after a suspension", dials()-n)
			}
			testkit.Advance(750 * time.Millisecond) // 0.25 to 0.5 s, then 0.5 to 1 s
			if more := dials() - n - 1; more < 1 || more > 2 {
				t.Errorf("the backoff did not begin anew: %d more dials in a second", more)
			}
			testkit.Advance(2 * time.Minute)
		}
		if got := l.counts.failures[failedSuspended].Load(); got != 5 {
			t.Errorf("%d suspensions counted", got)
		}
		stop()
	})
}

// TestSuspensionEndsTheSession: a session that may be dead is not waited for.
func TestSuspensionEndsTheSession(t *testing.T) {
	handler, sessions := muxtest.Accept(t, mux.Config{})
	gw := muxtest.Serve(t, handler)
	l := newLink(t, gw.Dialer(gw.HTTPS))
	defer runLink(t, l)()
	first := <-sessions
	l.suspended(time.Minute)
	began := time.Now()
	select {
	case <-first.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the session has not ended")
	}
	<-sessions
	if took := time.Since(began); took > 5*time.Second { // without the cut: 10 s
		t.Errorf("a new session after %v", took)
	}
	if l.counts.failures[failedSuspended].Load() != 1 {
		t.Error("not counted")
	}
}

func TestClassify(t *testing.T) {
	expired := &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}
	stranger := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	for _, tt := range []struct {
		err     error
		session bool
		want    failure
	}{
		{nil, false, failedOther},
		{errors.New("?"), false, failedOther},
		{errors.New("?"), true, failedLost},
		{io.EOF, true, failedLost},
		{expired, false, failedClock},
		{stranger, false, failedCertificate},
		{tls.RecordHeaderError{}, false, failedTLS},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, false, failedTLS},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false, failedUnreachable},
		{&net.OpError{Op: "read", Err: context.DeadlineExceeded}, false, failedTimeout},
		{context.DeadlineExceeded, false, failedTimeout},
		{mux.ErrBadResponse, false, failedAnswer},
		{fmt.Errorf("%w: %w", mux.ErrToken, fs.ErrNotExist), false, failedToken},
		{fmt.Errorf("%w: %w", mux.ErrToken, os.ErrDeadlineExceeded), false, failedToken},
		{&mux.RefusedError{Status: 401}, false, failedUnauthorized},
		{&mux.RefusedError{Status: 403}, false, failedForbidden},
		{&mux.RefusedError{Status: 409}, false, failedConflict},
		{&mux.RefusedError{Status: 503}, false, failedUnavailable},
		{&mux.RefusedError{Status: 500}, false, failedRefused},
		{report.ErrNoAck, true, failedAck},
		{errSuspended, true, failedSuspended},
	} {
		if got := classify(fmt.Errorf("dial: %w", tt.err), tt.session); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
	names := map[string]bool{}
	for f := range numFailures {
		names[f.String()] = true
	}
	if len(names) != int(numFailures) || names[""] {
		t.Errorf("names: %v", names)
	}
}
