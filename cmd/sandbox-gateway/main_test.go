// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandbox-agent/sandbox-agent/gateway"
	"github.com/sandbox-agent/sandbox-agent/internal/buildinfo"
)

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

// process is the command while it runs.
type process struct {
	t              *testing.T
	signals        chan os.Signal
	status         chan int
	stdout, stderr buffer
}

func startProcess(t *testing.T, environ []string, args ...string) *process {
	p := &process{t: t, signals: make(chan os.Signal, 2), status: make(chan int, 1)}
	go func() { p.status <- run(context.Background(), p.signals, args, environ, &p.stdout, &p.stderr) }()
	return p
}

// ended waits for the end.
func (p *process) ended() int {
	p.t.Helper()
	select {
	case status := <-p.status:
		return status
	case <-time.After(30 * time.Second):
		p.t.Fatalf("it does not end: %s", p.stderr.String())
		return -1
	}
}

// gatewayDoes runs a command that ends by itself.
func gatewayDoes(t *testing.T, environ []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	p := startProcess(t, environ, args...)
	status = p.ended()
	return status, p.stdout.String(), p.stderr.String()
}

func eventually(t *testing.T, what string, ok func() bool) {
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

// stateDir is short: a socket's path has a limit.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "state")
}

func serveArgs(state string, more ...string) []string {
	return append([]string{
		"serve", "--state-dir", state, "--drain-grace", "0s",
		"--grpc-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--supervisor-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
	}, more...)
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	unknown := filepath.Join(dir, "unknown.yaml")
	if err := os.WriteFile(unknown, []byte("drain_grace: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args    string
		environ []string
		want    string
	}{
		{"nope", nil, `unknown command "nope" for "sandbox-gateway"`},
		{"serve x", nil, `unknown command "x" for "sandbox-gateway serve"`},
		{"serve --nope", nil, `unknown flag: --nope`},
		{"serve --drain-grace soon", nil, `invalid argument "soon" for "--drain-grace" flag: time: invalid duration "soon"`},
		{"serve --log-level loud", nil, `log-level: "loud" is not one of debug, info, warn, error`},
		{"serve --log-format xml", nil, `log-format: "xml" is not one of text, json, journal`},
		{"serve --driver docker --state-dir x", nil, `state-dir: "x" is not an absolute path` + "\n" +
			`supervisor-socket: "x/supervisor/agent.sock" must be an absolute path of at most 107 bytes` + "\n" + `driver: "docker" is not one of external, local`},
		{"serve --config " + filepath.Join(dir, "none"), nil, "config: open " + filepath.Join(dir, "none") + ": no such file or directory"},
		{"serve --config " + unknown, nil, unknown + ": drain_grace: no such setting"},
		{"serve", []string{"SANDBOX_GATEWAY_DRAIN_GRACE=soon"}, `environment: drain-grace: time: invalid duration "soon"`},
		{"serve", []string{"SANDBOX_GATEWAY_DATABASE_URL=mysql://u:very-secret@h/d"}, `database-url: does not begin with postgres://`},
		{"check x", nil, `unknown command "x" for "sandbox-gateway check"`},
		{"version x", nil, `unknown command "x" for "sandbox-gateway version"`},
	} {
		status, stdout, stderr := gatewayDoes(t, c.environ, strings.Fields(c.args)...)
		if want := "sandbox-gateway: " + c.want + "\nSee sandbox-gateway --help.\n"; status != 2 || stderr != want || stdout != "" {
			t.Errorf("%s: %d %q %q\nwant 2 %q", c.args, status, stderr, stdout, want)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	for args, want := range map[string]string{
		"version": buildinfo.Version + "\n", "--version": "sandbox-gateway version " + buildinfo.Version + "\n",
	} {
		if status, stdout, stderr := gatewayDoes(t, nil, args); status != 0 || stdout != want || stderr != "" {
			t.Errorf("%s: %d %q %q", args, status, stdout, stderr)
		}
	}
	for _, args := range []string{"", "--help", "serve --help", "check --help"} {
		if status, stdout, stderr := gatewayDoes(t, nil, strings.Fields(args)...); status != 0 || !strings.Contains(stdout, "Usage:") || stderr != "" {
			t.Errorf("%q: %d %q %q", args, status, stdout, stderr)
		}
	}
}

// TestCheck shows by faults where a setting comes from: only that of the
// strongest source is looked at.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// A result that could not be written is a failure, and none of usage.
func TestOutputThatFails(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"man"}, {"completion", "bash"}, {"check"}, {"--help"}} {
		var stderr buffer
		if status := run(context.Background(), nil, args, nil, full{}, &stderr); status != 1 || stderr.String() != "sandbox-gateway: write the result: no space left on device\n" {
			t.Errorf("%q: %d %q", args, status, stderr.String())
		}
	}
}

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("driver: file\ntls-names: [a.example]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"SANDBOX_GATEWAY_DRIVER=variable", "SANDBOX_GATEWAY_OF_ANOTHER_PROGRAM=x", "SANDBOX_GATEWAY_CONFIG=" + file}
	for _, c := range []struct {
		environ []string
		args    []string
		fault   string // what is not a driver
	}{
		{nil, nil, ""},
		{nil, []string{"--config", file}, "file"},
		{environ, nil, "variable"},
		{environ, []string{"--config", file}, "variable"},
		{environ, []string{"--config", file, "--driver", "flag"}, "flag"},
		{environ, []string{"--config", file, "--driver", "local"}, ""},
		{[]string{"SANDBOX_GATEWAY_DRIVER=local"}, []string{"--config", file}, ""},
	} {
		status, stdout, stderr := gatewayDoes(t, c.environ, append([]string{"check"}, c.args...)...)
		want, wantStatus := "the configuration is valid\n", 0
		if c.fault != "" {
			want, wantStatus = "sandbox-gateway: driver: \""+c.fault+"\" is not one of external, local\n", 1
		}
		if status != wantStatus || stdout+stderr != want {
			t.Errorf("%v %v: %d %q, want %d %q", c.environ, c.args, status, stdout+stderr, wantStatus, want)
		}
	}
	if status, _, stderr := gatewayDoes(t, nil, "check", "--log-format", "xml"); status != 1 || !strings.Contains(stderr, "log-format: ") {
		t.Errorf("log format: %d %q", status, stderr)
	}
}

// client is what the tests need of client.json.
type client struct{ API, HTTP, Ops string }

// untilServing waits for a gateway's client file and its readiness.
func (p *process) untilServing(state string) (c client) {
	p.t.Helper()
	eventually(p.t, "serving", func() bool {
		b, err := os.ReadFile(filepath.Join(state, "client.json"))
		return err == nil && json.Unmarshal(b, &c) == nil && strings.HasPrefix(fetch(p.t, c.HTTP+"/readyz"), "ready")
	})
	return c
}

// fetch returns a body, or nothing.
func fetch(t *testing.T, url string) string {
	t.Helper()
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

func TestServe(t *testing.T) {
	for _, stop := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		state := stateDir(t)
		p := startProcess(t, nil, serveArgs(state, "--log-level", "debug")...)
		c := p.untilServing(state)
		// A second one on the same directory fails and disturbs nobody.
		status, stdout, stderr := gatewayDoes(t, nil, serveArgs(state)...)
		if want := "state directory is in use by another gateway: " + state + "/gateway.lock is locked\n"; status != 1 || stdout != "" || !strings.HasSuffix(stderr, want) || strings.Contains(stderr, "--help") {
			t.Errorf("a second gateway: %d %q %q", status, stdout, stderr)
		}
		if body := fetch(t, c.HTTP+"/readyz"); body != "ready" {
			t.Errorf("the first answers %q", body)
		}
		outputs := map[string]string{"/metrics": fetch(t, c.Ops+"/metrics"), "/readyz?verbose": fetch(t, c.Ops+"/readyz?verbose")}
		token, err := os.ReadFile(filepath.Join(state, "admin.token"))
		if err != nil {
			t.Fatal(err)
		}
		p.signals <- stop
		if status := p.ended(); status != 0 {
			t.Errorf("%v: status %d: %s", stop, status, p.stderr.String())
		}
		outputs["stdout"], outputs["stderr"] = p.stdout.String(), p.stderr.String()
		if outputs["stdout"] != "" || !strings.Contains(outputs["stderr"], "gateway started") {
			t.Errorf("printed %q, logged %q", outputs["stdout"], outputs["stderr"])
		}
		for where, text := range outputs {
			if strings.Contains(text, strings.TrimSpace(string(token))) {
				t.Errorf("the admin token is in %s", where)
			}
		}
	}
}

func TestServeThatCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	status, _, stderr := gatewayDoes(t, nil, serveArgs(stateDir(t), "--http-listen", taken.Addr().String())...)
	if status != 1 || !strings.HasSuffix(stderr, "sandbox-gateway: http-listen: listen tcp "+taken.Addr().String()+": bind: address already in use\n") {
		t.Errorf("%d %q", status, stderr)
	}
}

// The password of a database is in no message about it.
func TestDatabasePasswordIsPrintedNowhere(t *testing.T) {
	for _, url := range []string{
		"postgres://user:very-secret@127.0.0.1:1/db", "postgres://user:very-secret@127.0.0.1:none/db", "postgres://user:very-secret@127.0.0.1:1/db?sslmode=nonsense",
		"postgres://user:very-secret%zz@127.0.0.1:1/db", "postgres://user:very-secret@127.0.0.1:1/db?sslpassword=very-secret&sslcert=none", "user:very-secret@host",
	} {
		environ := []string{"SANDBOX_GATEWAY_DATABASE_URL=" + url}
		status, stdout, stderr := gatewayDoes(t, environ, serveArgs(stateDir(t), "--log-level", "debug")...)
		if status == 0 || stderr == "" {
			t.Errorf("%s: %d %q", url, status, stderr)
		}
		_, out2, err2 := gatewayDoes(t, environ, "check")
		if all := stdout + stderr + out2 + err2; strings.Contains(all, "very-secret") {
			t.Errorf("%s: %s", url, all)
		}
	}
}

// A gateway that waits for its database can be told to stop.
func TestStopDuringStart(t *testing.T) {
	database, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	p := startProcess(t, []string{"SANDBOX_GATEWAY_DATABASE_URL=postgres://u:p@" + database.Addr().String() + "/d?sslmode=disable"}, serveArgs(stateDir(t))...)
	conn, err := database.Accept() // and never an answer
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p.signals <- syscall.SIGTERM
	if status := p.ended(); status != 0 {
		t.Errorf("status %d: %s", status, p.stderr.String())
	}
}

// The packaged configuration is valid, and what it shows as comments are the
// defaults.
func TestPackagedConfiguration(t *testing.T) {
	b, err := os.ReadFile("../../packaging/config/sandbox-gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^#([a-z-]+:)`)
	if n := len(shown.FindAll(b, -1)); n < 5 {
		t.Fatalf("it shows %d settings", n)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, shown.ReplaceAll(b, []byte("$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, o := &cobra.Command{}, options{}
	o.register(cmd)
	o.file = file
	if err := o.load(cmd, nil); err != nil {
		t.Fatal(err)
	}
	want := gateway.DefaultConfig()
	want.TLSNames = []string{"gateway.example", "192.0.2.7"}
	if !reflect.DeepEqual(o.gateway, want) || o.logLevel != "info" || o.logFormat != "journal" {
		t.Errorf("it shows %+v, %s and %s; the defaults are %+v", o.gateway, o.logLevel, o.logFormat, want)
	}
}

// Every flag is explained in the document.
func TestFlagsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	cmd, o := &cobra.Command{}, options{}
	o.register(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(string(b), "`--"+f.Name+"`") {
			t.Errorf("docs/operations.md has no line for --%s", f.Name)
		}
	})
}
