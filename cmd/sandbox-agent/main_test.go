// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// asAgent makes the test binary the agent, so that a test can have one in a
// process of its own.
const asAgent = "TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		os.Unsetenv(asAgent)
		main()
	}
	testkit.Main(m)
}

// result is what a command leaves behind.
type result struct {
	code             int
	stdout, stderr   string
	stdoutB, stderrB buffer
}

// buffer is read while others write to it.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// agentDoes runs a command that ends by itself.
func agentDoes(environ []string, args ...string) *result {
	r := &result{}
	r.code = run(context.Background(), nil, args, environ, &r.stdoutB, &r.stderrB)
	r.stdout, r.stderr = r.stdoutB.String(), r.stderrB.String()
	return r
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not %s within 20 s", what)
		}
	}
}

func TestUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	unknown := filepath.Join(t.TempDir(), "unknown.yaml")
	write(t, unknown, "gatewai: x\n")
	const noToken = "token-file: is not set, and there is no token in the environment or the service manager's credentials"
	for _, c := range []struct {
		args    string
		environ []string
		want    string
	}{
		{"nope", nil, `unknown command "nope" for "sandbox-agent"`},
		{"run --nope", nil, `unknown flag: --nope`},
		{"run sleep 5", nil, `"sleep": COMMAND comes after --`},
		{"run sleep -- 5", nil, `"sleep": COMMAND comes after --`},
		{"run --log-level loud", nil, `log-level: "loud" is not one of debug, info, warn, error`},
		{"run --log-format xml", nil, `log-format: "xml" is not one of text, json, journal`},
		{"run --ops-listen 17692", nil, `ops-listen: "17692" is not of the form HOST:PORT`},
		{"run --service web", nil, `service: "web" is not of the form NAME=PORT or NAME=PORT/PATH`},
		{"run --service web=http", nil, `service: "web=http": port "http" is not a number in 1..65535`},
		{"run --service web=65536", nil, `service: "web=65536": port "65536" is not a number in 1..65535`},
		{"run --service web=0", nil, `service: "web": port 0: a port is 1..65535`},
		{"run --service web=80/a?b", nil, `service: "web": path has "?" at byte 2: a path has no query`},
		{"run --service web=80,web=81", nil, `service: the name "web" appears twice`},
		{"run --gateway https://gateway.example:1", nil, noToken},
		{"run --gateway https://gateway.example:1 --service web=80 --token-file t", nil, `service: is for an agent without gateway; with one, the gateway tells what to probe`},
		{"run --config " + missing, nil, "config: open " + missing + ": no such file or directory"},
		{"run --config " + unknown, nil, unknown + ": gatewai: no such setting"},
		{"run", []string{"SANDBOX_AGENT_LOG_LEVEL=loud"}, `log-level: "loud" is not one of debug, info, warn, error`},
		{"run", []string{"SANDBOX_AGENT_GATEWAY=https://gateway.example:1", "SANDBOX_AGENT_TOKEN= \n"}, noToken},
		{"status x", nil, `unknown command "x" for "sandbox-agent status"`},
		{"status -o xml", nil, `output: "xml" is not one of table, json`},
		{"check x", nil, `arguments are for --probe`},
		{"check --probe", nil, `--probe needs PORT`},
		{"check --probe http", nil, `PORT: "http" is not a number in 1..65535`},
		{"check --probe 0", nil, `port 0: a port is 1..65535`},
		{"check --probe 65536", nil, `PORT: "65536" is not a number in 1..65535`},
		{"check --probe 80 ready", nil, `path begins with "r": a path begins with "/" and names no scheme or host`},
		{"check --probe 80 / x", nil, `accepts at most 2 arg(s), received 3`},
		{"version x", nil, `unknown command "x" for "sandbox-agent version"`},
	} {
		got := agentDoes(c.environ, strings.Fields(c.args)...)
		if want := "sandbox-agent: " + c.want + "\nSee sandbox-agent --help.\n"; got.code != 2 || got.stderr != want || got.stdout != "" {
			t.Errorf("%s: %d %q %q\nwant 2 %q", c.args, got.code, got.stderr, got.stdout, want)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	for args, want := range map[string]string{
		"version": buildinfo.Version + "\n", "--version": "sandbox-agent version " + buildinfo.Version + "\n",
	} {
		if got := agentDoes(nil, args); got.code != 0 || got.stdout != want || got.stderr != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	for _, args := range []string{"", "--help", "run --help", "status --help", "check --help"} {
		if got := agentDoes(nil, strings.Fields(args)...); got.code != 0 || !strings.Contains(got.stdout, "Usage:") || got.stderr != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// TestPrecedence shows by faults where a setting comes from: only that of the
// strongest source is looked at.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// A result that could not be written is a failure, and none of usage.
func TestOutputThatFails(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"man"}, {"completion", "bash"}, {"check"}, {"--help"}, {"check", "--probe", "1"}} {
		var stderr buffer
		if code := run(context.Background(), nil, args, nil, full{}, &stderr); code != 1 || stderr.String() != "sandbox-agent: write the result: no space left on device\n" {
			t.Errorf("%q: %d %q", args, code, stderr.String())
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, "log-level: file\n")
	environ := []string{"SANDBOX_AGENT_LOG_LEVEL=variable", "OTHER=x"}
	for _, c := range []struct {
		environ []string
		args    []string
		code    int
		want    string
	}{
		{nil, nil, 0, ""},
		{nil, []string{"--config", file}, 1, `"file"`},
		{environ, nil, 1, `"variable"`},
		{environ, []string{"--config", file}, 1, `"variable"`},
		{environ, []string{"--config", file, "--log-level", "flag"}, 1, `"flag"`},
		{environ, []string{"--config", file, "--log-level", "debug"}, 0, ""},
		{[]string{"SANDBOX_AGENT_LOG_LEVEL=warn"}, []string{"--config", file}, 0, ""},
		{[]string{"SANDBOX_AGENT_CONFIG=" + file}, nil, 0, ""},
	} {
		got := agentDoes(c.environ, append([]string{"check"}, c.args...)...)
		want := "the configuration is valid\n"
		if c.code == 1 {
			want = "sandbox-agent: log-level: " + c.want + " is not one of debug, info, warn, error\n"
		}
		if got.code != c.code || got.stdout+got.stderr != want {
			t.Errorf("%v %v: %d %q, want %d %q", c.environ, c.args, got.code, got.stdout+got.stderr, c.code, want)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "t\n")
	write(t, filepath.Join(dir, "sandbox-token"), "t\n")
	write(t, filepath.Join(dir, "bad.crt"), "no certificate\n")
	token := filepath.Join(dir, "token")
	for args, want := range map[string]string{
		"--gateway https://gateway.example:17690 --token-file " + token: "",
		"--gateway unix:/run/gw/agent.sock --token-file " + token:       "",
		"--service web=80 --service api=90/ready":                       "",
		"--log-format xml": `log-format: "xml" is not one of text, json, journal`,
		"--gateway https://gateway.example:17690 --token-file " + token + " --ca-file " + filepath.Join(dir, "bad.crt"): "ca-file: " + filepath.Join(dir, "bad.crt") + " holds no PEM certificate",
	} {
		got := agentDoes(nil, append([]string{"check"}, strings.Fields(args)...)...)
		if want == "" && (got.code != 0 || got.stdout != "the configuration is valid\n") || want != "" && (got.code != 1 || got.stderr != "sandbox-agent: "+want+"\n") {
			t.Errorf("%s: %d %q %q, want %q", args, got.code, got.stdout, got.stderr, want)
		}
	}
	// A credential of the service manager, or a variable, is a token too.
	for _, source := range []string{"CREDENTIALS_DIRECTORY=" + dir, "SANDBOX_AGENT_TOKEN=t"} {
		if got := agentDoes([]string{source}, "check", "--gateway", "https://gateway.example:17690"); got.code != 0 {
			t.Errorf("%s: %+v", source, got)
		}
	}
}

// The packaged configuration is valid, and every line that it shows as a
// comment is a setting.
func TestPackagedConfiguration(t *testing.T) {
	b, err := os.ReadFile("../../packaging/config/sandbox-agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"as it is": string(b),
		// Alone, since a gateway names the services.
		"alone":          regexp.MustCompile(`(?m)^#(ops-listen:|log-level:|service:|  - )`).ReplaceAllString(string(b), "$1"),
		"with a gateway": strings.ReplaceAll(regexp.MustCompile(`(?m)^#(gateway|token-file|sandbox|ops-listen|log-level):`).ReplaceAllString(string(b), "$1:"), "/etc/sandbox-agent/token", filepath.Join(dir, "token")),
	} {
		file := filepath.Join(dir, "config.yaml")
		write(t, file, content)
		cmd, o := &cobra.Command{}, options{}
		o.register(cmd)
		o.file = file
		if err := o.load(cmd, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if o.agent.OpsListen != defaultOps || o.logLevel != "info" || o.logFormat != "journal" {
			t.Errorf("%s: %+v", name, o)
		}
		if n := len(o.agent.Services); (name == "alone") != (n == 2) {
			t.Errorf("%s: %d services", name, n)
		}
		if (name == "with a gateway") != (o.agent.Gateway == "https://gateway.example:17690") {
			t.Errorf("%s: the gateway is %q", name, o.agent.Gateway)
		}
	}
}

// Every flag is explained in the document.
func TestFlagsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(b), "## The agent in a sandbox")
	var o options
	cmd, status := &cobra.Command{}, statusCommand(nil, &outcome{})
	o.register(cmd)
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), status.Flags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, "`--"+f.Name) {
				t.Errorf("docs/operations.md has no line for --%s", f.Name)
			}
		})
	}
}
