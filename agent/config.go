// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/sandbox-agent/sandbox-agent/agent/command"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// Config is how an agent is set up. Fields are named as the flags are.
type Config struct {
	// Gateway is https://HOST:PORT or unix:/PATH. Empty: the agent works alone,
	// on Services.
	Gateway string
	// TokenFile holds the sandbox token. It is read at each dial, and written
	// when the gateway renews the token, if that is possible.
	TokenFile string
	// TokenKeep is where renewed tokens are kept if TokenFile is somebody else's,
	// who does not renew it: a credential of the service manager. What is kept
	// counts for as long as TokenFile stays as it is. Empty: see TokenFile.
	TokenKeep string
	// Token is the sandbox token if there is no TokenFile.
	Token secret.String
	// CAFile holds the certificate authority of the gateway, PEM. Empty: the
	// system's.
	CAFile string
	// Sandbox is the id of the sandbox that the agent believes to be in; empty:
	// the token decides.
	Sandbox string
	// OpsListen is the address of status, metrics and health.
	OpsListen string
	// Services are probed when there is no Gateway. Revisions are assigned.
	Services []probe.Service
	// Command is the main process; nil: none.
	Command *command.Config
	Logger  *slog.Logger
}

// Validate returns every fault of the configuration, each naming the field.
func (c Config) Validate() error {
	var errs []error
	if _, port, err := net.SplitHostPort(c.OpsListen); err != nil || port == "" {
		errs = append(errs, fmt.Errorf("ops-listen: %q is not of the form HOST:PORT", c.OpsListen))
	}
	if c.Gateway == "" {
		return errors.Join(append(errs, c.validateAlone())...)
	}
	if len(c.Services) > 0 {
		errs = append(errs, errors.New("service: is for an agent without gateway; with one, the gateway tells what to probe"))
	}
	if c.TokenFile == "" && c.Token.IsZero() {
		errs = append(errs, errors.New("token-file: is not set, and there is no token in the environment or the service manager's credentials"))
	}
	d := c.dialer(newTokens(c), nil, "check")
	if err := d.Validate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.tls(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Config) validateAlone() error {
	var errs []error
	if len(c.Services) > probe.MaxServices {
		errs = append(errs, fmt.Errorf("service: %d are given; at most %d are allowed", len(c.Services), probe.MaxServices))
	}
	seen := make(map[string]bool)
	for _, s := range c.Services {
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("service: the name %q appears twice", s.Name))
		}
		seen[s.Name] = true
		if !validName(s.Name) {
			errs = append(errs, fmt.Errorf("service: the name %q is not valid; a name is empty or 1 to 28 of a-z, 0-9 and -, with a letter or digit at both ends and no --", s.Name))
		}
		if err := s.Target.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("service: %q: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

// validName holds for the names that a gateway would take too.
func validName(name string) bool {
	bad := func(c rune) bool { return c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	return len(name) <= 28 && !strings.ContainsFunc(name, bad) && !strings.Contains(name, "--") &&
		!strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
}

// dialer returns what dials the gateway.
func (c Config) dialer(t *tokens, tls *tls.Config, instance string) mux.Dialer {
	return mux.Dialer{
		Gateway: c.Gateway, TLS: tls, Token: t.get, Sandbox: c.Sandbox,
		Instance: instance, Version: buildinfo.Version,
	}
}

// tls returns the client side's configuration.
func (c Config) tls() (*tls.Config, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca-file: %s holds no PEM certificate", c.CAFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, nil
}
