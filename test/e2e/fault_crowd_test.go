// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/mux"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// T20, without relays: an agent that opens all the streams it can and uses none,
// and strangers that connect and say nothing, leave everybody else's reports
// alone, and the gateway as it was.
func TestT20Crowd(t *testing.T) {
	t.Parallel()
	s := runningSite(t)
	x := s.target(answer(200))
	s.exposeAll(s.client(), "", x)
	w := s.watch(serviceOf(x), good(x)...)
	w.untilState(15*time.Second, time.Time{}, sandbox.HealthHealthy)
	began := time.Now()
	s.late(began)

	s.cli("sandbox", "create", "greedy")
	session := s.greedy("greedy")
	opened := 0
	for {
		_, err := session.Open(s.ctx, mux.KindControl, nil)
		if err != nil {
			if !errors.Is(err, mux.ErrTooManyStreams) && !errors.Is(err, mux.ErrSessionClosed) {
				t.Errorf("after %d streams: %v", opened, err)
			}
			break
		}
		opened++
	}
	_, addr, _ := strings.Cut(s.at.Supervisor, "://")
	for range 300 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	t.Logf("%d streams opened", opened)
	s.during(20 * time.Second)
	s.youngerThan(w, began, 6*time.Second)
}

// greedy opens a session as the agent of a sandbox.
func (s *site) greedy(name string) *mux.Session {
	s.t.Helper()
	r, err := s.Sandbox(s.ctx, name)
	if err != nil {
		s.t.Fatal(err)
	}
	id := r.GetSandbox().GetMetadata().GetId()
	token, err := os.ReadFile(filepath.Join(s.State, "sandboxes", id, "token"))
	if err != nil {
		s.t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(s.State, "ca.crt"))
	if err != nil {
		s.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	d := &mux.Dialer{
		Gateway: s.at.Supervisor, TLS: &tls.Config{RootCAs: pool}, Instance: "greedy", Version: "0", Sandbox: id,
		Token: func() (secret.String, error) { return secret.New(strings.TrimSpace(string(token))), nil },
	}
	session, err := d.Dial(s.ctx, mux.Config{MaxStreams: 319})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { session.Close() })
	return session
}
