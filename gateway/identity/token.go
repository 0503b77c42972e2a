// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

const (
	audience = "sandbox-supervisor"
	issuer   = "sandbox-gateway"
)

// ErrToken is returned by Verify for a token that this gateway did not issue,
// or that is not valid (any more).
var ErrToken = errors.New("not a valid sandbox token of this gateway")

// Claims say whom a sandbox token is for.
type Claims struct {
	SandboxID  string
	Generation uint64
	Expires    time.Time
}

type claims struct {
	jwt.RegisteredClaims
	Generation uint64 `json:"generation"`
}

type signer struct {
	key   ed25519.PrivateKey
	keyID string
}

func openSigner(cfg Config) (*signer, error) {
	b, err := readOrMake(filepath.Join(cfg.Dir, signingKeyFile), func() ([]byte, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
	})
	if err != nil {
		return nil, fmt.Errorf("sandbox token key: %w", err)
	}
	key, err := parseKey[ed25519.PrivateKey](b)
	if err != nil {
		return nil, fmt.Errorf("sandbox token key: %s: %w", signingKeyFile, err)
	}
	sum := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return &signer{key: key, keyID: hex.EncodeToString(sum[:8])}, nil
}

// Issue returns a token for one generation of a sandbox, and when it expires.
func (i *Identity) Issue(sandboxID string, generation uint64) (secret.String, time.Time, error) {
	now := i.cfg.Now()
	expires := now.Add(i.cfg.TokenLifetime)
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: sandboxID, Audience: jwt.ClaimStrings{audience},
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now.Add(-backDate)),
			ExpiresAt: jwt.NewNumericDate(expires),
		},
		Generation: generation,
	})
	t.Header["kid"] = i.signer.keyID
	s, err := t.SignedString(i.signer.key)
	if err != nil {
		return secret.String{}, time.Time{}, fmt.Errorf("sandbox token: %w", err)
	}
	return secret.New(s), expires, nil
}

// TokenLifetime is how long issued tokens are valid.
func (i *Identity) TokenLifetime() time.Duration { return i.cfg.TokenLifetime }

// Verify checks a token's signature, audience and validity, and returns whom it
// is for. Whether that sandbox still exists is the caller's question. Every
// failure is ErrToken; the reason is wrapped, and holds nothing of the token.
func (i *Identity) Verify(token secret.String) (Claims, error) {
	var c claims
	_, err := jwt.ParseWithClaims(token.Reveal(), &c, func(t *jwt.Token) (any, error) {
		if t.Header["kid"] != i.signer.keyID {
			return nil, errors.New("signed with another key")
		}
		return i.signer.key.Public(), nil
	},
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(audience), jwt.WithIssuer(issuer), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(i.cfg.Now),
	)
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, fmt.Errorf("%w: it has expired", ErrToken)
	case err != nil:
		return Claims{}, ErrToken
	case c.Subject == "" || c.Generation == 0:
		return Claims{}, fmt.Errorf("%w: it names no sandbox", ErrToken)
	}
	return Claims{SandboxID: c.Subject, Generation: c.Generation, Expires: c.ExpiresAt.Time}, nil
}
