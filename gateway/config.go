// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/statedir"
)

// Config is how a gateway is set up. Fields are named as the flags are.
type Config struct {
	// StateDir holds credentials, the SQLite database and sandboxes' files.
	StateDir string
	// Listeners as HOST:PORT; port 0 lets the kernel choose.
	GRPCListen       string
	HTTPListen       string
	SupervisorListen string
	OpsListen        string
	// SupervisorSocket is the unix socket for agents on this host. Empty:
	// STATE_DIR/supervisor/agent.sock.
	SupervisorSocket string
	// RoutingDomain is the parent of the services' host names.
	RoutingDomain string
	// DrainGrace is how long a gateway that was told to stop goes on serving.
	DrainGrace time.Duration
	// DatabaseURL is a postgres:// URL; empty: SQLite in StateDir.
	DatabaseURL secret.String
	// TLSNames are host names and addresses, beside those of loopback, by which
	// users and agents reach the gateway.
	TLSNames []string
	// Driver boots sandboxes that name none: external or local.
	Driver string
	// AgentPath is the sandbox-agent binary of local sandboxes. Empty: beside
	// this executable, then in PATH.
	AgentPath string
	// TokenLifetime is how long sandbox tokens are valid.
	TokenLifetime time.Duration
	// Inherited are listeners that whoever started this process has bound, by
	// the names Socket…. They replace the addresses above. The Gateway owns them.
	Inherited map[string][]net.Listener
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		StateDir:         statedir.System,
		GRPCListen:       "127.0.0.1:17670",
		HTTPListen:       "127.0.0.1:17680",
		SupervisorListen: "127.0.0.1:17690",
		OpsListen:        "127.0.0.1:17691",
		RoutingDomain:    "sandbox.localhost",
		DrainGrace:       25 * time.Second,
		Driver:           "external",
		TokenLifetime:    7 * 24 * time.Hour,
	}
}

// socket returns the path of the unix socket for agents.
func (c Config) socket() string {
	if c.SupervisorSocket != "" {
		return c.SupervisorSocket
	}
	return filepath.Join(c.StateDir, "supervisor", "agent.sock")
}

// maxSocketPath is what fits into the kernel's sockaddr_un.
const maxSocketPath = 107

// Validate returns every fault of the configuration, each naming the field.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
	}
	if !filepath.IsAbs(c.StateDir) {
		bad("state-dir", "%q is not an absolute path", c.StateDir)
	}
	for _, l := range [][2]string{
		{"grpc-listen", c.GRPCListen},
		{"http-listen", c.HTTPListen},
		{"supervisor-listen", c.SupervisorListen},
		{"ops-listen", c.OpsListen},
	} {
		if !validListener(l[1]) {
			bad(l[0], "%q is not of the form HOST:PORT", l[1])
		}
	}
	switch p := c.socket(); {
	case !filepath.IsAbs(p) || len(p) > maxSocketPath:
		bad("supervisor-socket", "%q must be an absolute path of at most %d bytes", p, maxSocketPath)
	case filepath.Dir(p) == filepath.Clean(c.StateDir):
		bad("supervisor-socket", "%q must not be in the state directory itself: local sandboxes see the socket's directory", p)
	}
	if !validDomain(c.RoutingDomain) {
		bad("routing-domain", "%q is not a lowercase domain name", c.RoutingDomain)
	}
	for _, name := range c.TLSNames {
		if net.ParseIP(name) == nil && !validDomain(strings.TrimPrefix(name, "*.")) {
			bad("tls-names", "%q is neither an address nor a lowercase domain name", name)
		}
	}
	if c.DrainGrace < 0 || c.DrainGrace > 10*time.Minute {
		bad("drain-grace", "%v is not in 0s..10m", c.DrainGrace)
	}
	if u := c.DatabaseURL.Reveal(); u != "" && !strings.HasPrefix(u, "postgres://") && !strings.HasPrefix(u, "postgresql://") {
		bad("database-url", "does not begin with postgres://")
	}
	if c.Driver != "external" && c.Driver != "local" {
		bad("driver", "%q is not one of external, local", c.Driver)
	}
	if c.TokenLifetime < time.Hour {
		bad("token-lifetime", "%v is shorter than 1h", c.TokenLifetime)
	}
	return errors.Join(errs...)
}

// validListener reports whether addr is HOST:PORT with a port in 0..65535.
func validListener(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// maxDomain leaves room for a label in front of the domain.
const maxDomain = 253 - 64

func validDomain(d string) bool {
	if len(d) > maxDomain {
		return false
	}
	for label := range strings.SplitSeq(d, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
			strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return false
		}
	}
	return true
}
