// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// maxToken bounds what is read as a token, in bytes.
const maxToken = 16 << 10

// tokens holds the sandbox token: the newest of what the file says and what
// the gateway has renewed.
type tokens struct {
	file   string
	keep   string
	logger *slog.Logger

	mu      sync.Mutex
	read    string // what the file said last
	current secret.String
}

func newTokens(c Config) *tokens {
	return &tokens{file: c.TokenFile, keep: c.TokenKeep, current: c.Token, logger: c.Logger}
}

// get returns the token for the next dial. The file is read again each time:
// somebody may have put a new one there.
func (t *tokens) get() (secret.String, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == "" {
		return t.current, nil
	}
	text, err := readToken(t.file)
	switch {
	case err == nil && text != t.read:
		t.read, t.current = text, t.successor(text)
	case err != nil && t.current.IsZero():
		return secret.String{}, err
	}
	return t.current, nil
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("token-file: %w", err)
	}
	if info.Size() > maxToken {
		return "", fmt.Errorf("token-file: %s has %d bytes; a token has at most %d", path, info.Size(), maxToken)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token-file: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("token-file: %s is empty", path)
	}
	return text, nil
}

// renew takes a token of the gateway over, and keeps it for the agent's next
// life where the file can be replaced. A file that cannot (a credential of the
// service manager, a read-only image) is nothing to worry about: its owner
// renews it.
func (t *tokens) renew(token secret.String) {
	if !plausible(token.Reveal()) {
		t.logger.Warn("the gateway has sent a token that is none")
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = token
	if t.keep != "" {
		if err := replace(t.keep, digest(t.read)+"\n"+token.Reveal()+"\n"); err != nil {
			t.logger.Warn("keeping a renewed token failed", "error", err)
		}
		return
	}
	if t.file == "" {
		return
	}
	if err := replace(t.file, token.Reveal()+"\n"); err != nil {
		t.logger.Debug("keeping a renewed token failed", "error", err)
		return
	}
	t.read = token.Reveal()
}

// plausible reports whether a token could be one: it is neither empty nor too
// long, and reading it back from a file gives it again.
func plausible(token string) bool {
	bad := func(c rune) bool { return c <= ' ' || c > '~' }
	return token != "" && len(token) < maxToken && !strings.ContainsFunc(token, bad)
}

// successor returns what a former life of this agent has kept in the place of
// the file's text, if it has; otherwise that text.
func (t *tokens) successor(text string) secret.String {
	if t.keep == "" {
		return secret.New(text)
	}
	kept, err := readToken(t.keep)
	origin, token, ok := strings.Cut(kept, "\n")
	if err != nil || !ok || origin != digest(text) {
		return secret.New(text)
	}
	return secret.New(token)
}

// digest names a token without telling it.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// replace rewrites a file so that a reader sees the old or the new content.
func replace(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it was renamed
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
