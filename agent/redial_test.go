// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
)

// dialling records when a link dials, and answers with what next returns.
type dialling struct {
	mu   sync.Mutex
	at   []time.Time
	next func(n int) error // nil: the gateway
	to   *gateway
}

func (d *dialling) open(ctx context.Context, cfg mux.Config) (*mux.Session, error) {
	d.mu.Lock()
	n := len(d.at)
	d.at = append(d.at, time.Now())
	err := d.next(n)
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return d.to.pipe(ctx, cfg)
}

func (d *dialling) set(next func(n int) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = next
}

// gaps returns the times between dials, from the nth on.
func (d *dialling) gaps(n int) []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var gaps []time.Duration
	for i := n + 1; i < len(d.at); i++ {
		gaps = append(gaps, d.at[i].Sub(d.at[i-1]))
	}
	return gaps
}

func (d *dialling) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.at)
}

// An agent dials for ever, whatever the error, ever more slowly, and never in
// step.
func TestRedialsForEverWhateverTheError(t *testing.T) {
	for name, err := range map[string]error{
		"nobody listens":             &net.OpError{Op: "dial", Err: errors.New("connection refused")},
		"a name that is not found":   &net.DNSError{Err: "no such host", IsNotFound: true},
		"the handshake takes long":   context.DeadlineExceeded,
		"no HTTP":                    mux.ErrBadResponse,
		"not yet valid":              x509.CertificateInvalidError{Reason: x509.Expired},
		"an unknown authority":       x509.UnknownAuthorityError{},
		"a TLS alert":                tls.AlertError(40),
		"an invalid token":           &mux.RefusedError{Status: 401},
		"a stopped sandbox":          &mux.RefusedError{Status: 403},
		"another agent":              &mux.RefusedError{Status: 409},
		"another protocol":           &mux.RefusedError{Status: 426},
		"a gateway that drains":      &mux.RefusedError{Status: 503},
		"an error nobody thought of": errors.New("?"),
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				d := &dialling{next: func(int) error { return err }, to: newGateway(t)}
				r := newRig(t, d.open)
				testkit.Advance(time.Hour)
				gaps := d.gaps(0)
				if len(gaps) < 240 || len(gaps) > 500 { // 7.5 s to 15 s at the cap
					t.Fatalf("%d dials in an hour", len(gaps))
				}
				same := map[time.Duration]bool{}
				for i, gap := range gaps {
					least, most := 125*time.Millisecond<<min(i, 10), 250*time.Millisecond<<min(i, 10)
					least, most = min(least, 7500*time.Millisecond), min(most, 15*time.Second)
					if gap < least || gap > most {
						t.Fatalf("gap %d is %v, want %v to %v", i, gap, least, most)
					}
					same[gap] = true
				}
				if len(same) < len(gaps)*9/10 { // T29
					t.Errorf("%d different gaps of %d: no jitter", len(same), len(gaps))
				}
				live, since, last := r.status()
				if live || time.Since(since) != time.Hour || !errors.Is(last, err) {
					t.Errorf("status %t since %v: %v", live, time.Since(since), last)
				}
				if n := r.counts.dials.Load(); int(n) != d.count() {
					t.Errorf("%d dials are counted, %d were made", n, d.count())
				}
				d.set(func(int) error { return nil })
				testkit.Advance(15 * time.Second)
				if live, _, last := r.status(); !live || last != nil {
					t.Errorf("no session although the gateway is there: %v", last)
				}
			})
		})
	}
}

// A gateway that says when to come back is not asked before, and not by all at
// once.
func TestRetryAfter(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		refused := &mux.RefusedError{Status: 503, RetryAfter: 20 * time.Second}
		d := &dialling{next: func(int) error { return refused }, to: newGateway(t)}
		newRig(t, d.open)
		testkit.Advance(10 * time.Minute)
		for i, gap := range d.gaps(0) {
			if gap < 20*time.Second || gap > 30*time.Second {
				t.Errorf("gap %d is %v, want 20 to 30 s", i, gap)
			}
		}
	})
}

// The backoff begins anew after a session that lasted, and not after one that
// was cut at once, or two agents with one identity would never rest.
func TestTheBackoffBeginsAnewAfterALongSession(t *testing.T) {
	for _, tc := range []struct {
		lasts time.Duration
		anew  bool
	}{{0, false}, {9 * time.Second, false}, {11 * time.Second, true}, {time.Hour, true}} {
		testkit.Bubble(t, func(t *testing.T) {
			const failures = 8
			d := &dialling{to: newGateway(t), next: func(n int) error {
				if n < failures {
					return errors.New("not yet")
				}
				return nil
			}}
			newRig(t, d.open)
			for len(d.to.all()) == 0 {
				testkit.Advance(time.Second)
			}
			n := d.count()
			d.set(func(int) error { return errors.New("gone again") })
			testkit.Advance(tc.lasts - time.Since(d.at[n-1]))
			d.to.newest(t, 1).end <- errors.New("the gateway ends it")
			testkit.Advance(time.Minute)
			after := d.gaps(n)
			first := after[0]
			if anew := first <= time.Second; anew != tc.anew {
				t.Errorf("after a session of %v the first gap is %v", tc.lasts, first)
			}
		})
	}
}

// An agent without a usable token needs somebody: a warning for each change of
// what is wrong, not for each dial.
func TestATokenThatCannotBeReadIsAWarning(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		logger, seen := levels(t)
		file := filepath.Join(t.TempDir(), "token")
		d := &mux.Dialer{
			Gateway: "unix:" + filepath.Join(t.TempDir(), "nobody"), Instance: "i", Version: "v",
			Token: newTokens(Config{TokenFile: file, Logger: logger}).get,
		}
		r := newRigWith(t, logger, nil, d.Dial)
		testkit.Advance(10 * time.Minute)
		if got := seen(); got != "WARN no session with the gateway\n" {
			t.Errorf("a file that is not there is logged as %q", got)
		}
		put(t, file, "t\x00ken")
		testkit.Advance(time.Minute)
		put(t, file, "token")
		testkit.Advance(time.Minute)
		if got := seen(); got != "INFO no session with the gateway\n" {
			t.Errorf("with a token that is right at last, and nobody who listens: %q", got)
		}
		counted := func(why failure) uint64 { return r.counts.failures[why].Load() }
		if counted(failedToken) < 40 || counted(failedUnreachable) == 0 || counted(failedOther) != 0 {
			t.Errorf("%d for the token, %d for the gateway, %d for other reasons", counted(failedToken), counted(failedUnreachable), counted(failedOther))
		}
	})
}

// A gateway that stays away is worth one line, not one every few seconds.
func TestWhatStaysTheSameIsLoggedOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		logger, seen := levels(t)
		d := &dialling{to: newGateway(t), next: func(n int) error {
			if n < 50 {
				return &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}
			return &mux.RefusedError{Status: 401}
		}}
		r := newRigWith(t, logger, nil, d.open)
		testkit.Advance(time.Hour)
		if got := seen(); got != "INFO no session with the gateway\nWARN no session with the gateway\n" {
			t.Errorf("logged %q", got)
		}
		d.set(func(int) error { return nil })
		testkit.Advance(time.Minute)
		d.to.newest(t, 1).end <- errors.New("x")
		testkit.Wait()
		if got := seen(); got != "INFO session with the gateway opened\nINFO no session with the gateway\n" {
			t.Errorf("a session that was opened and lost is logged as %q", got)
		}
		r.stop()
		if got := seen(); got != "" {
			t.Errorf("the agent's own end is logged as %q", got)
		}
	})
}
