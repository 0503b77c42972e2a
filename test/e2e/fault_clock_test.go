// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// T17: by the agent's clock the gateway's authority is not valid yet. The agent
// dials on, says both times, counts it, and has a session when time has come.
func TestT17ClockBehind(t *testing.T) {
	t.Parallel()
	s, _ := linkedSite(t)
	x := s.target(answer(200))
	s.exposeAll(s.client(), "", x)
	w := s.watch(serviceOf(x), good(x)...)
	valid := time.Now().Add(8 * time.Second).Truncate(time.Second)
	file := s.reissue(valid)
	s.startAgent("--ca-file", file)
	err := kit.Until(s.ctx, time.Until(valid), "the agent to say what is wrong", func() (bool, string) {
		st, err := s.agentStatus()
		if err != nil {
			return false, err.Error()
		}
		said := st.Gateway.LastError
		return !st.Gateway.Connected && strings.Contains(said, valid.UTC().Format(time.RFC3339)) &&
			strings.Contains(said, valid.UTC().Format("2006-01-02T")), said
	})
	if err != nil {
		t.Fatal(err)
	}
	const series = `sandbox_agent_session_failures_total{reason="clock"}`
	err = kit.Until(s.ctx, time.Until(valid), "the agent to count three dials", func() (bool, string) {
		return s.agentMetrics()[series] >= 3, ""
	})
	if err != nil {
		t.Fatal(err)
	}
	// The backoff is below 8 s by then.
	before, now := w.untilState(30*time.Second, time.Time{}, sandbox.HealthHealthy)
	within(t, "HEALTHY", valid, before, now, 0, 16*time.Second, 0)
}

// reissue writes the certificate of the gateway's authority anew, with another
// beginning, and returns where.
func (s *site) reissue(notBefore time.Time) (file string) {
	s.t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(s.State, name))
		if err != nil {
			s.t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		return block.Bytes
	}
	old, err := x509.ParseCertificate(read("ca.crt"))
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := x509.ParsePKCS8PrivateKey(read("ca.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	again := *old
	again.NotBefore = notBefore
	der, err := x509.CreateCertificate(rand.Reader, &again, &again, old.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	file = filepath.Join(s.dir, "later.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}
