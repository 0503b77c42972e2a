// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package muxtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// CA is a throwaway certification authority with one server certificate, valid
// for localhost, 127.0.0.1 and ::1.
type CA struct {
	Pool *x509.CertPool
	Cert tls.Certificate
}

// NewCA makes one. The certificates are valid from a year before now to a year
// after, as the test's clock has it.
func NewCA(t testing.TB) *CA {
	t.Helper()
	root := template("muxtest CA")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	rootKey, rootCert := sign(t, root, root, nil)
	leaf := template("localhost")
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.DNSNames = []string{"localhost"}
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	leafKey, leafCert := sign(t, leaf, rootCert, rootKey)
	ca := &CA{Pool: x509.NewCertPool(), Cert: tls.Certificate{Certificate: [][]byte{leafCert.Raw}, PrivateKey: leafKey}}
	ca.Pool.AddCert(rootCert)
	return ca
}

// Server is a configuration for mux.NewServer.
func (c *CA) Server() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c.Cert}} }

// Client is a configuration for mux.Dialer.
func (c *CA) Client() *tls.Config { return &tls.Config{RootCAs: c.Pool} }

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.AddDate(-1, 0, 0),
		NotAfter:     now.AddDate(1, 0, 0),
	}
}

func sign(t testing.TB, cert, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), by)
	if err != nil {
		t.Fatalf("certificate: %v", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("certificate: %v", err)
	}
	return key, parsed
}
