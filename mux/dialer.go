// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

const gatewayRule = "it must be https://HOST:PORT or unix:/ABSOLUTE/PATH"

// Dialer opens sessions from an agent to its gateway. Its fields must not be
// changed while it is in use.
type Dialer struct {
	// Gateway is "https://HOST:PORT" or "unix:/ABSOLUTE/PATH".
	Gateway string
	// TLS is cloned for each Dial; TLS 1.3 and ALPN http/1.1 are enforced, and
	// the host of Gateway is verified unless ServerName says otherwise. Nil
	// means the system's roots. Not used with a unix socket.
	TLS *tls.Config
	// Token is asked for the sandbox token at each Dial.
	Token func() (secret.String, error)
	// Instance is 1 to 64 of [A-Za-z0-9-], Version 1 to 64 printable ASCII
	// characters without space.
	Instance, Version string
	// Sandbox is the id of the sandbox that the agent believes to be in, of the
	// form of Instance; empty: the token alone decides.
	Sandbox string
}

// target is a parsed gateway address.
type target struct {
	network, address string // for net.Dialer
	host             string // value of Host
	serverName       string // empty without TLS
}

// Validate checks all fields. Its errors name the field, the fault and the rule.
func (d *Dialer) Validate() error {
	_, err := d.target()
	return err
}

func (d *Dialer) target() (target, error) {
	t, err := parseGateway(d.Gateway)
	switch {
	case err != nil:
		return t, err
	case d.Token == nil:
		return t, errors.New("token: no source; one must be given")
	case !validInstance(d.Instance):
		return t, errors.New("instance: not valid; it must be 1 to 64 of A-Z, a-z, 0-9 and -")
	case d.Sandbox != "" && !validInstance(d.Sandbox):
		return t, errors.New("sandbox: not valid; it must be 1 to 64 of A-Z, a-z, 0-9 and -")
	case !validVersion(d.Version):
		return t, errors.New("version: not valid; it must be 1 to 64 printable ASCII characters without space")
	}
	return t, nil
}

func parseGateway(gateway string) (target, error) {
	fault := func(text string) (target, error) {
		return target{}, fmt.Errorf("gateway: %s; %s", text, gatewayRule)
	}
	if gateway == "" {
		return fault("is empty")
	}
	if path, ok := strings.CutPrefix(gateway, "unix:"); ok {
		switch {
		case !strings.HasPrefix(path, "/"):
			return fault("the socket's path is not absolute")
		case len(path) > 107:
			return fault("the socket's path is longer than 107 bytes")
		case strings.ContainsRune(path, 0):
			return fault("the socket's path has a NUL byte")
		}
		return target{network: "unix", address: path, host: "localhost"}, nil
	}
	// The value is not shown, nor is the parser's error: it may hold a password.
	u, err := url.Parse(gateway)
	if err != nil {
		return fault("is not a URL")
	}
	port, portErr := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.Scheme != "https":
		return fault(fmt.Sprintf("scheme %q is not supported", u.Scheme))
	case u.User != nil:
		return fault("has a user name or password")
	case u.Opaque != "" || u.Hostname() == "":
		return fault("has no host")
	case u.Port() == "":
		return fault("has no port")
	case portErr != nil || port == 0:
		return fault("the port is not between 1 and 65535")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fault("has a path, query or fragment")
	case !validHost(u.Hostname()):
		return fault("the host has a character that no host name or address has")
	}
	return target{network: "tcp", address: u.Host, host: u.Host, serverName: u.Hostname()}, nil
}

func validHost(host string) bool {
	for i := range len(host) {
		if c := host[i]; !alphanumeric(c) && !strings.ContainsRune("-._:%", rune(c)) {
			return false
		}
	}
	return true
}

// Dial opens a session. The whole handshake must be over within 10 s, or
// earlier if ctx says so. A plain HTTP error of the gateway is a *RefusedError,
// an answer that is no proper HTTP is ErrBadResponse; an error of Token is wrapped
// in ErrToken, those of the network and of TLS are wrapped. ctx has no effect on
// the session itself.
func (d *Dialer) Dial(ctx context.Context, cfg Config) (*Session, error) {
	t, err := d.target()
	if err != nil {
		return nil, err
	}
	if _, err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if !validToken(token.Reveal()) {
		return nil, fmt.Errorf("%w: it is empty, or has a character that no bearer token has", ErrToken)
	}
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, t.network, t.address)
	if err != nil {
		return nil, fmt.Errorf("mux: %w", err)
	}
	tune(raw)
	return d.dialOver(ctx, raw, t, token, cfg)
}

// dialOver opens a session on raw, which it owns.
func (d *Dialer) dialOver(ctx context.Context, raw net.Conn, t target, token secret.String, cfg Config) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	conn, early, err := d.handshake(ctx, raw, t, token)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return newSession(conn, early, cfg, true)
}

// handshake runs TLS and the HTTP exchange on raw. It returns the connection to
// go on with, free of deadlines, and the bytes that came after the answer.
func (d *Dialer) handshake(ctx context.Context, raw net.Conn, t target, token secret.String) (net.Conn, []byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn := raw
	if t.serverName != "" {
		secured := tls.Client(&batchConn{Conn: raw}, clientTLS(d.TLS, t.serverName))
		if err := secured.HandshakeContext(ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, nil, fmt.Errorf("mux: TLS handshake: %w", err)
		}
		conn = secured
	}
	early, err := exchange(conn, request(t.host, d, token))
	if !stop() {
		return nil, nil, fmt.Errorf("mux: handshake: %w", context.Cause(ctx))
	}
	return conn, early, err
}

func clientTLS(given *tls.Config, serverName string) *tls.Config {
	c := given.Clone()
	if c == nil {
		c = &tls.Config{}
	}
	if c.ServerName == "" {
		c.ServerName = serverName
	}
	harden(c)
	return c
}

// harden sets what both ends agree on. Records of one size keep a frame in one
// record and one write.
func harden(c *tls.Config) {
	c.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	c.NextProtos = []string{"http/1.1"}
	c.DynamicRecordSizingDisabled = true
}
