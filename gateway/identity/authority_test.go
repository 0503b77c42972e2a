// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"
)

// handshake connects a client to a listener of id and returns what it got.
func handshake(t *testing.T, id *Identity, client *tls.Config, protocols ...string) (tls.ConnectionState, error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		server := tls.Server(b, id.TLS(protocols...))
		done <- server.Handshake()
		_ = b.Close()
	}()
	conn := tls.Client(a, client)
	err := conn.Handshake()
	_ = a.Close()
	<-done
	return conn.ConnectionState(), err
}

// trusting returns a client of id whose clock shows now.
func trusting(id *Identity, name string, now time.Time) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(id.CA())
	return &tls.Config{RootCAs: pool, ServerName: name, Time: func() time.Time { return now }, NextProtos: []string{"h2", "http/1.1"}}
}

func TestHandshake(t *testing.T) {
	c := newClock()
	id := open(t, t.TempDir(), c)
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "gateway.example", "192.0.2.7"} {
		state, err := handshake(t, id, trusting(id, name, c.now), "h2")
		if err != nil || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
			t.Errorf("%s: %v, version %x, protocol %q", name, err, state.Version, state.NegotiatedProtocol)
		}
	}
	if _, err := handshake(t, id, trusting(id, "elsewhere.example", c.now), "h2"); err == nil {
		t.Error("the certificate is for a name that nobody configured")
	}
	if _, err := handshake(t, id, trusting(open(t, t.TempDir(), c), "localhost", c.now), "h2"); err == nil {
		t.Error("the client trusts another gateway's authority")
	}
	old := trusting(id, "localhost", c.now)
	old.MaxVersion = tls.VersionTLS12
	if _, err := handshake(t, id, old, "h2"); err == nil {
		t.Error("TLS 1.2 is accepted")
	}
}

// T17: the certificates are valid for a guest whose clock is two days behind.
func TestCertificatesAreBackDated(t *testing.T) {
	c := newClock()
	id := open(t, t.TempDir(), c)
	for behind, valid := range map[time.Duration]bool{0: true, 47 * time.Hour: true, 49 * time.Hour: false} {
		if _, err := handshake(t, id, trusting(id, "localhost", c.now.Add(-behind)), "h2"); (err == nil) != valid {
			t.Errorf("a client whose clock is %v behind: %v", behind, err)
		}
	}
}

// The server certificate is renewed 30 days before its end, under the same
// authority, without a restart.
func TestCertificateRenewal(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	id := open(t, dir, c)
	leaf := func() []byte {
		state, err := handshake(t, id, trusting(id, "localhost", c.now), "h2")
		if err != nil {
			t.Fatalf("at %v: %v", c.now, err)
		}
		return state.PeerCertificates[0].Raw
	}
	start, first := c.now, leaf()
	for _, tc := range []struct {
		days  int
		fresh bool
	}{{1, false}, {59, false}, {60, true}, {61, false}, {119, false}, {121, true}} {
		c.now = start.AddDate(0, 0, tc.days)
		next := leaf()
		if fresh := !bytes.Equal(next, first); fresh != tc.fresh {
			t.Errorf("day %d: new certificate %t, want %t", tc.days, fresh, tc.fresh)
		}
		first = next
	}
	id = open(t, dir, c) // a restart keeps the authority
	if _, err := handshake(t, id, trusting(open(t, dir, c), "localhost", c.now), "h2"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestCertificateFields(t *testing.T) {
	c := newClock()
	id := open(t, t.TempDir(), c)
	ca := id.ca.cert
	if !ca.IsCA || !ca.MaxPathLenZero || ca.KeyUsage != x509.KeyUsageCertSign || ca.NotAfter.Before(c.now.AddDate(9, 0, 0)) {
		t.Errorf("the authority's certificate: %+v", ca)
	}
	cert, err := id.ca.certificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf := cert.Leaf
	if leaf.IsCA || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth || leaf.SerialNumber.Cmp(ca.SerialNumber) == 0 {
		t.Errorf("the server's certificate: %+v", leaf)
	}
	if len(leaf.DNSNames) != 2 || len(leaf.IPAddresses) != 3 {
		t.Errorf("names %q, addresses %v", leaf.DNSNames, leaf.IPAddresses)
	}
	if copied := id.CA(); bytes.Equal(copied, id.ca.pem) {
		copied[0] = 'x'
		if bytes.Equal(copied, id.CA()) {
			t.Error("CA hands its own bytes out")
		}
	}
}
