// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// Names of the files in the state directory.
const (
	CAFile         = "ca.crt"
	AdminTokenFile = "admin.token"
	caKeyFile      = "ca.key"
	signingKeyFile = "sandbox-tokens.key"
)

// Config says where an Identity lives.
type Config struct {
	Dir string
	// Names are host names and addresses beside localhost, 127.0.0.1 and ::1
	// that the server certificate is for.
	Names []string
	// TokenLifetime is how long a sandbox token is valid.
	TokenLifetime time.Duration
	// Now is the clock of everything that is stored or signed.
	Now func() time.Time
}

// DefaultTokenLifetime is long enough to boot a sandbox days after it was
// created; agents renew their tokens at half of it.
const DefaultTokenLifetime = 7 * 24 * time.Hour

// Identity is the gateway's credentials.
type Identity struct {
	cfg    Config
	ca     *authority
	signer *signer
	admin  secret.String
	digest [sha256.Size]byte
}

// Open reads the credentials in cfg.Dir, or makes them.
func Open(cfg Config) (*Identity, error) {
	if cfg.TokenLifetime <= 0 {
		cfg.TokenLifetime = DefaultTokenLifetime
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	ca, err := openAuthority(cfg)
	if err != nil {
		return nil, err
	}
	signer, err := openSigner(cfg)
	if err != nil {
		return nil, err
	}
	token, err := readOrMake(filepath.Join(cfg.Dir, AdminTokenFile), func() ([]byte, error) {
		b := make([]byte, 32)
		_, err := rand.Read(b)
		return []byte(base64.RawURLEncoding.EncodeToString(b) + "\n"), err
	})
	if err != nil {
		return nil, fmt.Errorf("admin token: %w", err)
	}
	admin := strings.TrimSpace(string(token))
	if len(admin) < 16 {
		return nil, fmt.Errorf("admin token: %s holds %d characters, at least 16 are needed", AdminTokenFile, len(admin))
	}
	return &Identity{cfg: cfg, ca: ca, signer: signer, admin: secret.New(admin), digest: sha256.Sum256([]byte(admin))}, nil
}

// AdminToken returns the bearer token of the API.
func (i *Identity) AdminToken() secret.String { return i.admin }

// IsAdmin reports whether token is the admin token, in constant time.
func (i *Identity) IsAdmin(token string) bool {
	d := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(d[:], i.digest[:]) == 1
}
