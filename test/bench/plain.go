// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// With one of these and an address, this binary is one of the processes that a
// relay is compared with. It prints where it listens.
const (
	proxyCommand     = "plain-proxy"      // a reverse proxy to the address
	tunnelledCommand = "tunnelled-proxy"  // the same, over TLS
	tunnelCommand    = "plain-tls-tunnel" // the other end of that TLS
)

// startSelf starts this binary as another process.
func startSelf(ctx context.Context, command, target string) (addr string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, command, target)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("%s: %w", command, err)
	}
	return strings.TrimSpace(string(buf[:n])), stop, nil
}

// servePlain is such a process. ok is false if the command is none of them.
func servePlain(command, target string, out io.Writer) (ok bool, err error) {
	serve := map[string]func(net.Listener, string) error{
		proxyCommand:     func(l net.Listener, target string) error { return serveProxy(l, target, "http") },
		tunnelledCommand: func(l net.Listener, target string) error { return serveProxy(l, target, "https") },
		tunnelCommand:    serveTunnel,
	}[command]
	if serve == nil {
		return false, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return true, err
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return true, err
	}
	return true, serve(l, target)
}

func serveProxy(l net.Listener, target, scheme string) error {
	u := &url.URL{Scheme: scheme, Host: target}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64,
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // of a certificate made a moment ago
		},
		FlushInterval: -1,
	}
	s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	return s.Serve(l)
}

// serveTunnel copies what comes over TLS, and what goes back.
func serveTunnel(l net.Listener, target string) error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", target)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { _, _ = io.CopyBuffer(struct{ io.Writer }{out}, in, make([]byte, 64<<10)) }()
			_, _ = io.CopyBuffer(in, struct{ io.Reader }{out}, make([]byte, 64<<10))
		}()
	}
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
