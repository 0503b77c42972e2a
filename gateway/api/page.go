// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// pageToken is where a listing goes on, and of which query.
type pageToken struct {
	Query     []byte `json:"q"`
	Workspace string `json:"w"`
	Sandbox   string `json:"s,omitempty"`
	Name      string `json:"n"`
}

const maxToken = 1024

// queryID identifies what is listed, whatever the page size.
func queryID(parts ...string) []byte {
	b, _ := json.Marshal(parts) // strings always marshal
	sum := sha256.Sum256(b)
	return sum[:8]
}

func pageSize(n int32) (int, error) {
	switch {
	case n < 0:
		return 0, invalid("page_size", "%d is negative; it must be in 0..%d, 0 meaning %d", n, maxPage, defaultPage)
	case n == 0:
		return defaultPage, nil
	default:
		return min(int(n), maxPage), nil
	}
}

func encodeToken(query []byte, after store.Cursor) string {
	b, _ := json.Marshal(pageToken{query, after.Workspace, after.Sandbox, after.Name}) // bytes and valid strings
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeToken reads a token that a client sent back: exactly one that
// encodeToken has made, of the same query.
func decodeToken(token string, query []byte) (store.Cursor, error) {
	if token == "" {
		return store.Cursor{}, nil
	}
	const rule = "use the next_page_token of the page before, unchanged"
	var t pageToken
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(token) > maxToken || json.Unmarshal(b, &t) != nil {
		return store.Cursor{}, invalid("page_token", "is not a page token of this gateway; %s", rule)
	}
	after := store.Cursor{Workspace: t.Workspace, Sandbox: t.Sandbox, Name: t.Name, Set: true}
	if encodeToken(t.Query, after) != token || !plain(t.Workspace+t.Sandbox+t.Name) {
		return store.Cursor{}, invalid("page_token", "is not a page token of this gateway; %s", rule)
	}
	if !bytes.Equal(t.Query, query) {
		return store.Cursor{}, invalid("page_token", "belongs to another list request; %s", rule)
	}
	return after, nil
}
