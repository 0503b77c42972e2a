// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// TestQuickstart does what the page says, word for word.
func TestQuickstart(t *testing.T) { follow(t, "docs/quickstart.md") }

// TestReadme does so with the first steps of the README.
func TestReadme(t *testing.T) { follow(t, "README.md") }

// follow runs the fences of a page that say sh, in order, as they stand, but for
// what a second reader on the same machine would have to change as well: ports
// and the state directory. What is printed has to be what the page shows in a
// fence that says text right after; see same.
func follow(t *testing.T, name string) {
	t.Parallel()
	bed, err := kit.New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	port, agentOps := freePort(t), freePort(t)
	shown := map[string]string{bed.State: "/var/lib/sandbox-gateway", port: "9000", agentOps: "17692"}
	s := newShell(
		t, "TMPDIR="+tmp, "SANDBOX_GATEWAY_STATE_DIR="+bed.State, "SANDBOX_GATEWAY_DRAIN_GRACE=0s",
		"SANDBOX_GATEWAY_GRPC_LISTEN=127.0.0.1:0", "SANDBOX_GATEWAY_HTTP_LISTEN=127.0.0.1:0",
		"SANDBOX_GATEWAY_SUPERVISOR_LISTEN=127.0.0.1:0", "SANDBOX_GATEWAY_OPS_LISTEN=127.0.0.1:0",
		"SANDBOX_AGENT_OPS_LISTEN=127.0.0.1:"+agentOps,
	)
	t.Cleanup(func() { // of a run that broke off: sandboxes outlive their gateway
		if t.Failed() {
			bed.CLI(context.Background(), "sandbox", "delete", "web", "--timeout", "10s")
		}
	})
	count := 0
	blocks := read(t, name).blocks
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		count++
		printed := slices.DeleteFunc(s.run(strings.ReplaceAll(b.text, "9000", port)), logged.MatchString)
		if strings.Contains(b.text, "sandbox-gateway serve") {
			maps.Copy(shown, started(t, bed))
		}
		if i+1 == len(blocks) || blocks[i+1].language != "text" {
			continue
		}
		for real, instead := range shown {
			whole := regexp.MustCompile(`\b` + regexp.QuoteMeta(real) + `\b`)
			if strings.HasPrefix(real, "/") {
				whole = regexp.MustCompile(regexp.QuoteMeta(real) + `\b`)
			}
			for j := range printed {
				printed[j] = whole.ReplaceAllString(printed[j], instead)
			}
		}
		if want := strings.Split(strings.TrimSuffix(blocks[i+1].text, "\n"), "\n"); !same(want, printed) {
			t.Errorf("%s:%d: this was printed instead:\n%s", name, blocks[i+1].line, strings.Join(printed, "\n"))
		}
	}
	if count < 2 {
		t.Errorf("%s: found %d fences that say sh", name, count)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) != 0 {
		t.Errorf("%s: it leaves %v behind", name, left)
	}
}

// logged is what a gateway in the background writes to the same terminal.
var logged = regexp.MustCompile(`^time=\S+ level=`)

// started waits for the gateway, as the page asks its reader to, and returns
// for its ports those that the pages show.
func started(t *testing.T, bed *kit.Bed) map[string]string {
	t.Helper()
	err := kit.Until(t.Context(), 20*time.Second, "the gateway to answer", func() (bool, string) {
		r := bed.CLI(t.Context(), "gateway", "status")
		return r.Code == 0, r.Stderr
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := bed.Client()
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string]string{}
	for url, shown := range map[string]string{c.API: "17670", c.HTTP: "17680", c.Supervisor: "17690", c.Ops: "17691"} {
		ports[url[strings.LastIndexByte(url, ':')+1:]] = shown
	}
	return ports
}

// freePort returns a port that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// varying is what differs from one run to the next, and what stands for it.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "ID"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|h|m|s))+\b`), "DURATION"},
	{regexp.MustCompile(`[·█▄]{20,}`), "STRIP"},
	{regexp.MustCompile(`^(Version:|Agent) +[^ ,]+`), "$1 VERSION"},
	{regexp.MustCompile(`\s+`), " "},
}

func plain(line string) string {
	for _, v := range varying {
		line = v.pattern.ReplaceAllString(line, v.by)
	}
	return strings.TrimSpace(line)
}

// same compares what was printed with what a page shows, without times, ids,
// versions and the width of columns. A line "…" of the page is any lines.
func same(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == "…":
		return same(want[1:], got) || len(got) > 0 && same(want, got[1:])
	}
	return len(got) > 0 && plain(want[0]) == plain(got[0]) && same(want[1:], got[1:])
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"a  1.2s ·········█████████████\n2026-11-30T09:21:04Z", "a 30ms ·············████████████\n2026-11-30T09:21:05Z", true},
		{"Version:   0.0.0-dev", "Version: 1.2.3", true},
		{"a\n…\nb", "a\nb", true},
		{"a\n…\nb", "a\nx\ny\nb", true},
		{"a\n…", "a", true},
		{"a\nb", "a", false},
		{"a", "a\nb", false},
		{"a 200", "a 404", false},
		{"…\na\nc", "a\nb", false},
	} {
		if same(strings.Split(c.want, "\n"), strings.Split(c.got, "\n")) != c.same {
			t.Errorf("%q and %q: same is not %v", c.want, c.got, c.same)
		}
	}
}
