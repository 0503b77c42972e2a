// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"time"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 90 * 24 * time.Hour
	leafRenewal  = 30 * 24 * time.Hour // before its end
	// backDate makes certificates valid for a guest whose clock is behind.
	backDate = 48 * time.Hour
)

// authority is the local certificate authority and its current server
// certificate, which it renews by itself.
type authority struct {
	cfg  Config
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte

	mu   sync.Mutex
	leaf *tls.Certificate
}

func openAuthority(cfg Config) (*authority, error) {
	if exists(cfg.Dir, CAFile) && !exists(cfg.Dir, caKeyFile) {
		// A new key would belong to no certificate that agents know.
		return nil, fmt.Errorf("certificate authority: %s is there without %s: put the key back, or remove the certificate and hand a new one to every agent", CAFile, caKeyFile)
	}
	keyPEM, err := readOrMake(filepath.Join(cfg.Dir, caKeyFile), func() ([]byte, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
	})
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, err := parseKey[*ecdsa.PrivateKey](keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %s: %w", caKeyFile, err)
	}
	a := &authority{cfg: cfg, key: key}
	a.pem, err = readOrMake(filepath.Join(cfg.Dir, CAFile), a.selfSign)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	block, _ := pem.Decode(a.pem)
	if block == nil {
		return nil, fmt.Errorf("certificate authority: %s holds no PEM block", CAFile)
	}
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("certificate authority: %s: %w", CAFile, err)
	}
	if !key.PublicKey.Equal(a.cert.PublicKey) {
		return nil, fmt.Errorf("certificate authority: %s and %s do not belong together", CAFile, caKeyFile)
	}
	return a, nil
}

// parseKey reads a PKCS #8 key of type K.
func parseKey[K any](b []byte) (K, error) {
	var zero K
	block, _ := pem.Decode(b)
	if block == nil {
		return zero, errors.New("no PEM block")
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return zero, err
	}
	key, ok := any.(K)
	if !ok {
		return zero, fmt.Errorf("a key of type %T, want %T", any, zero)
	}
	return key, nil
}

func serial() (*big.Int, error) { return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) }

func (a *authority) selfSign() ([]byte, error) {
	n, err := serial()
	if err != nil {
		return nil, err
	}
	now := a.cfg.Now()
	t := &x509.Certificate{
		SerialNumber: n, Subject: pkix.Name{CommonName: "sandbox-gateway local CA"},
		NotBefore: now.Add(-backDate), NotAfter: now.Add(caLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, a.key.Public(), a.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// certificate returns a server certificate that is valid for a while yet.
func (a *authority) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	if a.leaf != nil && now.Add(leafRenewal).Before(a.leaf.Leaf.NotAfter) {
		return a.leaf, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	n, err := serial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: n, Subject: pkix.Name{CommonName: "sandbox-gateway"},
		NotBefore: now.Add(-backDate), NotAfter: now.Add(leafLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, name := range a.cfg.Names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if name != "" {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a.leaf = &tls.Certificate{Certificate: [][]byte{bytes.Clone(der)}, PrivateKey: key, Leaf: leaf}
	return a.leaf, nil
}

// TLS returns the server configuration of a listener that speaks the given
// protocols (ALPN).
func (i *Identity) TLS(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     protocols,
		GetCertificate: i.ca.certificate,
		// The post-quantum hybrid costs half as much again per handshake, and
		// ten thousand agents may reconnect at once.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	}
}

// CA returns the certificate of the authority, PEM.
func (i *Identity) CA() []byte { return bytes.Clone(i.ca.pem) }
