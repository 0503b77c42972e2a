// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// stage is a gateway, and a directory for files, of one test.
type stage struct {
	t   *testing.T
	bed *kit.Bed
	tmp string
	at  kit.Client
	env []string // of the commands, beside what every page needs
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "ex") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, tmp: filepath.Join(dir, "tmp")}
	if err := os.Mkdir(s.tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	if s.bed, err = kit.New(dir, log); err != nil {
		t.Skip(err)
	}
	gateway, err := s.bed.Gateway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.leavesNothing()
		if code, err := gateway.Stop(); code != 0 || err != nil {
			t.Errorf("the gateway ended with %d, %v", code, err)
		}
		log.Close()
		if t.Failed() {
			s.logs(log.Name())
		}
	})
	if s.at, err = s.bed.Client(); err != nil {
		t.Fatal(err)
	}
	return s
}

// logs shows the gateway's log, and those that a page has written.
func (s *stage) logs(gateway string) {
	written, _ := filepath.Glob(filepath.Join(s.tmp, "*", "*.log"))
	for _, name := range append(written, gateway) {
		b, err := os.ReadFile(name)
		s.t.Logf("%s: %v\n%s", filepath.Base(name), err, b[max(len(b)-16<<10, 0):])
	}
}

// leavesNothing deletes the sandboxes that are left; a page that was followed
// to its end leaves none.
func (s *stage) leavesNothing() {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	r := s.bed.CLI(ctx, "sandbox", "list", "-o", "json")
	var list openshellv1.ListSandboxesResponse
	if err := protojson.Unmarshal([]byte(r.Stdout), &list); err != nil {
		s.t.Errorf("sandbox list: %v\n%s", err, r.Stderr)
	}
	for _, sandbox := range list.GetSandboxes() {
		name := sandbox.GetMetadata().GetName()
		if !s.t.Failed() {
			s.t.Errorf("the page leaves sandbox %s", name)
		}
		s.bed.CLI(ctx, "sandbox", "delete", name)
	}
}

// environment is that of the commands of a page: this gateway and no other,
// the binaries under test, and a directory for files that is removed.
func (s *stage) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SANDBOX_") })
	env = append(env,
		"PATH="+s.bed.Bin+":"+os.Getenv("PATH"), "TMPDIR="+s.tmp, "NO_COLOR=1", "COLUMNS=200",
		"SANDBOX_GATEWAY="+s.at.API, "SANDBOX_GATEWAY_STATE_DIR="+s.bed.State,
		// Registries are asked for what is installed, and nothing else.
		"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
	return append(env, s.env...)
}

// asShown makes of the output what a page shows: the ports and the directories
// of a gateway, and of files, by default.
func (s *stage) asShown(output string) string {
	for from, to := range map[string]string{s.at.HTTP: "17680", s.at.API: "17670", s.at.Supervisor: "17690"} {
		if u, err := url.Parse(from); err == nil {
			output = strings.ReplaceAll(output, ":"+u.Port(), ":"+to)
		}
	}
	output = strings.ReplaceAll(output, s.bed.State, "/var/lib/sandbox-gateway")
	return strings.ReplaceAll(output, s.tmp, "/tmp")
}
