// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page on the loopback, of a gateway that is flipped, killed and frozen
// under it.
func TestPage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	api, docs := s.target("api", 200), s.target("docs", 200)
	s.cli("sandbox", "create", "web", "--expose", docs.port)
	s.cli("service", "expose", "web", api.port, "api", "--readiness-path", "/ready")
	s.cli("service", "expose", "web", "1", "gone")
	s.cli("sandbox", "create", "idle")
	s.agent("web")
	s.healthy("web", "")
	s.healthy("web", "api")
	s.run("page.test.mjs")
}

// The page where the listener is no loopback's: it needs the admin token.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.gateway.Stop()
	s.args = []string{"--http-listen", "0.0.0.0:0"}
	s.start()
	s.cli("sandbox", "create", "web", "--expose", s.target("web", 200).port)
	token, err := os.ReadFile(filepath.Join(s.bed.State, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	s.run("signin.test.mjs", "TOKEN="+strings.TrimSpace(string(token)))
}

// What the page knows, without a browser.
func TestModel(t *testing.T) {
	t.Parallel()
	out, err := node(t.Context(), "model.test.mjs").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
