// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// scene is a gateway, an agent with one session and one healthy service.
type scene struct {
	t              *testing.T
	dir            string
	gateway, agent string // ops addresses
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, dir: t.TempDir()}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.Close()
		if b, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s", b)
		}
	})
	bed, err := kit.New(s.dir, log)
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := bed.Gateway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gateway.Stop() })
	port := s.serve()
	if r := bed.CLI(t.Context(), "sandbox", "create", "web", "--expose", port); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	sb, err := bed.Sandbox(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	client, err := bed.Client()
	if err != nil {
		t.Fatal(err)
	}
	s.gateway, s.agent = strings.TrimPrefix(client.Ops, "http://"), free(t)
	agent, err := bed.Start("sandbox-agent", "run", "--gateway", client.Socket, "--ops-listen", s.agent,
		"--token-file", filepath.Join(bed.State, "sandboxes", sb.GetSandbox().GetMetadata().GetId(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Stop() })
	if err := bed.UntilHealth(t.Context(), 10*time.Second, "web", "", "HEALTHY"); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve answers everything on a free port.
func (s *scene) serve() (port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	s.t.Cleanup(func() { srv.Close(); <-done })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d, %v", url, resp.StatusCode, err)
	}
	return string(b)
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (sandbox_\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(sandbox_\w+?)(?:_bucket|_sum|_count)?\{([^}]*)\}`)
	labelName  = regexp.MustCompile(`(\w+)="`)
	tableRow   = regexp.MustCompile("(?m)^\\| `(sandbox_\\w+)` \\| (\\w+) \\| ([a-z, ]*?) ?\\|")
)

// shape is a metric's type and labels, without those of the format.
type shape struct{ kind, labels string }

// served returns the shapes of what a binary serves.
func served(text string) map[string]shape {
	labels := make(map[string]map[string]bool)
	for _, m := range sampleLine.FindAllStringSubmatch(text, -1) {
		if labels[m[1]] == nil {
			labels[m[1]] = make(map[string]bool)
		}
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				labels[m[1]][l[1]] = true
			}
		}
	}
	out := make(map[string]shape)
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		out[m[1]] = shape{m[2], strings.Join(slices.Sorted(maps.Keys(labels[m[1]])), ",")}
	}
	return out
}

// The page says exactly what is served: names, types and labels.
func TestDocumented(t *testing.T) {
	s := newScene(t)
	b, err := os.ReadFile(filepath.Join(kit.Root(), "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := make(map[string]shape)
	for _, m := range tableRow.FindAllStringSubmatch(string(b), -1) {
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		page[m[1]] = shape{m[2], strings.Join(labels, ",")}
	}
	all := served(get(t, "http://"+s.gateway+"/metrics"))
	maps.Copy(all, served(get(t, "http://"+s.agent+"/metrics")))
	for name, want := range page {
		if got, ok := all[name]; !ok {
			t.Errorf("%s is documented and not served", name)
		} else if got != want {
			t.Errorf("%s is served as %+v, documented as %+v", name, got, want)
		}
	}
	for name := range all {
		if _, ok := page[name]; !ok {
			t.Errorf("%s is served and not documented", name)
		}
	}
}

// promtool finds nothing to complain of, in metrics, rules and their tests.
func TestPromtool(t *testing.T) {
	s := newScene(t)
	for _, ops := range []string{s.gateway, s.agent} {
		cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
		cmd.Stdin = strings.NewReader(get(t, "http://"+ops+"/metrics"))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics of %s: %v\n%s", ops, err, out)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "tests.yaml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = filepath.Join(kit.Root(), "packaging", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

const prometheusConfig = `
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [%q]
scrape_configs:
  - { job_name: gateway, static_configs: [ { targets: [%q] } ] }
  - { job_name: agent, static_configs: [ { targets: [%q] } ] }
`

// A real Prometheus scrapes both, evaluates the rules, and understands what the
// dashboard asks.
func TestPrometheus(t *testing.T) {
	s := newScene(t)
	config := filepath.Join(s.dir, "prometheus.yaml")
	rules := filepath.Join(kit.Root(), "packaging", "prometheus", "rules.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, rules, s.gateway, s.agent), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := free(t)
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(s.dir, "tsdb"),
		"--web.listen-address="+addr, "--log.level=warn")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make setup installs it)", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus:\n%s", log.String())
		}
	})
	for _, expr := range dashboard(t) {
		if err := accepts(addr, expr); err != nil {
			t.Errorf("a panel asks %s: %v", expr, err)
		}
	}
	for query, want := range map[string]string{
		`sandbox_agent_service_healthy`:                            "1",
		`sandbox_agent_session_connected`:                          "1",
		`sandbox_gateway_services{state="healthy"}`:                "1",
		`sandbox_gateway_sessions`:                                 "1",
		`sandbox_gateway_ready`:                                    "1",
		`sandbox_agent:probe_pass:ratio_rate5m > 0`:                "", // a value of the rule
		`sum(sandbox_gateway_handshakes_total{result="accepted"})`: "1",
	} {
		err := kit.Until(t.Context(), 40*time.Second, query, func() (bool, string) {
			got, err := ask(addr, query)
			if err != nil {
				return false, err.Error()
			}
			return got != "" && (want == "" || got == want), got
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// dashboard returns what the panels ask, with a value for each variable.
func dashboard(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(kit.Root(), "packaging", "grafana", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all = append(all, strings.ReplaceAll(target.Expr, "$job", ".*"))
		}
	}
	if len(all) < 10 {
		t.Fatalf("the dashboard has %d queries", len(all))
	}
	return all
}

// Dashboard and rules ask for nothing that nobody serves or records.
func TestDashboardAndRules(t *testing.T) {
	s := newScene(t)
	rules, err := os.ReadFile(filepath.Join(kit.Root(), "packaging", "prometheus", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, ops := range []string{s.gateway, s.agent} {
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(get(t, "http://"+ops+"/metrics"), -1) {
			known[m[1]] = true
			if m[2] == "histogram" {
				known[m[1]+"_bucket"] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(string(rules), -1) {
		known[m[1]] = true
	}
	for _, text := range append(dashboard(t), string(rules)) {
		for _, name := range regexp.MustCompile(`\b(?:sandbox|process|go)_[a-z0-9_:]+`).FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("nobody serves %s", name)
			}
		}
	}
}

// accepts returns an error unless Prometheus understands a query.
func accepts(addr, query string) error {
	var last error
	err := kit.Until(context.Background(), 40*time.Second, "an answer", func() (bool, string) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
		resp, err := client.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return false, err.Error() // it starts
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			return false, resp.Status
		}
		if resp.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(resp.Body)
			last = fmt.Errorf("%s: %s", resp.Status, b)
		}
		return true, ""
	})
	return errors.Join(err, last)
}

// ask returns the value of a query that has one; "" if it has none.
func ask(addr, query string) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + addr + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Data.Result) != 1 {
		return "", nil
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}
