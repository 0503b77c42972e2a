// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is an agent in a process of its own.
type process struct {
	*exec.Cmd
	t      *testing.T
	result *result
}

func startProcess(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	p := newProcess(t, environ, args...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill() })
	return p
}

// newProcess returns an agent that was not started yet.
func newProcess(t *testing.T, environ []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{exec.Command(self, append([]string{"run", "--ops-listen", "127.0.0.1:0"}, args...)...), t, &result{}}
	// The race detector would wait a second at the end.
	p.Env = append([]string{asAgent + "=1", "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH")}, environ...)
	p.Stdout, p.Stderr = &p.result.stdoutB, &p.result.stderrB
	return p
}

// ended waits for the agent's end.
func (p *process) ended() *result {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			p.t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		p.Process.Kill()
		<-done
		p.t.Errorf("the agent does not end: %s", p.result.stderrB.String())
	}
	p.result.code = p.ProcessState.ExitCode()
	p.result.stdout, p.result.stderr = p.result.stdoutB.String(), p.result.stderrB.String()
	return p.result
}

// says waits for a text on stdout.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, "said: "+text, func() bool { return strings.Contains(p.result.stdoutB.String(), text) })
}

func TestExitCodeOfTheCommand(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	write(t, plain, "no program\n")
	for _, c := range []struct {
		command []string
		code    int
		out     string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"sh", "-c", "echo hello; exit 7"}, 7, "hello\n"},
		{[]string{"sh", "-c", "exit 255"}, 255, ""},
		{[]string{"sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"sh", "-c", "kill -15 $$"}, 143, ""},
		{[]string{"/nonexistent"}, 127, ""},
		{[]string{plain}, 126, ""},
	} {
		got := startProcess(t, nil, append([]string{"--"}, c.command...)...).ended()
		if got.code != c.code || got.stdout != c.out {
			t.Errorf("%q: %d %q, want %d %q; %s", c.command, got.code, got.stdout, c.code, c.out, got.stderr)
		}
	}
}

// The end of whoever reads its log is not the agent's, nor its command's.
func TestLogThatNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	p := newProcess(t, nil, "--", "sh", "-c", "exit 7")
	p.Stderr = w
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if got := p.ended(); got.code != 7 {
		t.Errorf("status %d, %v", got.code, p.ProcessState)
	}
}

// The command sees the environment, but not what is the agent's alone.
func TestEnvironmentOfTheCommand(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sandbox-token"), "t")
	secretive := []string{
		"SANDBOX_AGENT_TOKEN=the-secret-token", "CREDENTIALS_DIRECTORY=" + dir, "NOTIFY_SOCKET=" + filepath.Join(dir, "n"),
		"WATCHDOG_USEC=1000000000", "WATCHDOG_PID=1",
	}
	public := []string{"GREETING=a=b c", "SANDBOX_AGENT_LOG_LEVEL=warn"}
	got := startProcess(t, append(slices.Clone(public), secretive...), "--", "env").ended()
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	lines := strings.Split(got.stdout, "\n")
	for _, want := range public {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing in %q", want, lines)
		}
	}
	for _, kv := range secretive {
		name, value, _ := strings.Cut(kv, "=")
		if strings.Contains(got.stdout, name+"=") || len(value) > 1 && strings.Contains(got.stdout, value) {
			t.Errorf("%s is in %q", name, lines)
		}
	}
}

func TestSignals(t *testing.T) {
	// The shell reports what it is sent, when its present child has ended.
	const script = `trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo term; exit 9' TERM; echo up; while :; do sleep 0.05; done`
	for _, stop := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startProcess(t, nil, "--", "sh", "-c", script)
		p.says("up\n")
		for sent, want := range map[syscall.Signal]string{syscall.SIGUSR1: "usr1\n", syscall.SIGHUP: "hup\n"} {
			if err := p.Process.Signal(sent); err != nil {
				t.Fatal(err)
			}
			p.says(want)
		}
		if err := p.Process.Signal(stop); err != nil {
			t.Fatal(err)
		}
		// Whatever the command makes of it, the agent was asked to stop and did.
		if got := p.ended(); got.code != 0 || !strings.HasSuffix(got.stdout, "term\n") {
			t.Errorf("%v: %d %q %s", stop, got.code, got.stdout, got.stderr)
		}
	}
}

var opsAddress = regexp.MustCompile(`msg="agent started" ops=(\S+)`)

// ops returns the address of a running agent's ops listener.
func ops(t *testing.T, log *buffer) string {
	t.Helper()
	addr := ""
	eventually(t, "started", func() bool {
		m := opsAddress.FindStringSubmatch(log.String())
		if m != nil {
			addr = m[1]
		}
		return m != nil
	})
	return addr
}

// A token is in no output, at any level, whatever becomes of the session.
func TestTokenIsPrintedNowhere(t *testing.T) {
	const token = "eyJhbGciOiJFZERTQSJ9.very-secret.token"
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), token+"\n")
	write(t, filepath.Join(dir, "sandbox-token"), token+"\n")
	for name, c := range map[string]struct {
		environ []string
		args    []string
	}{
		"variable":   {[]string{"SANDBOX_AGENT_TOKEN=" + token}, nil},
		"file":       {nil, []string{"--token-file", filepath.Join(dir, "token")}},
		"credential": {[]string{"CREDENTIALS_DIRECTORY=" + dir}, nil},
		"not usable": {[]string{"SANDBOX_AGENT_TOKEN=" + token + " and more"}, nil},
	} {
		gateway := "unix:" + filepath.Join(dir, "nobody.sock")
		p := startProcess(t, c.environ, append([]string{"--gateway", gateway, "--log-level", "debug"}, c.args...)...)
		addr := ops(t, &p.result.stderrB)
		outputs := map[string]string{}
		eventually(t, "given up once", func() bool { return strings.Contains(p.result.stderrB.String(), "no session with the gateway") })
		for _, format := range []string{"table", "json"} {
			r := agentDoes(nil, "status", "-o", format, "--ops-listen", addr)
			if r.code != 0 || !strings.Contains(r.stdout, "nobody.sock") {
				t.Errorf("%s: status: %+v", name, r)
			}
			outputs["status "+format] = r.stdout + r.stderr
		}
		for _, path := range []string{"/status", "/metrics", "/readyz?verbose"} {
			outputs[path] = fetch(t, "http://"+addr+path)
		}
		p.Process.Signal(syscall.SIGTERM)
		got := p.ended()
		outputs["log"] = got.stdout + got.stderr
		check := agentDoes(c.environ, append([]string{"check", "--gateway", gateway}, c.args...)...)
		outputs["check"] = check.stdout + check.stderr
		for where, text := range outputs {
			if text == "" || strings.Contains(text, "very-secret") {
				t.Errorf("%s: %s: %q", name, where, text)
			}
		}
		if got.code != 0 {
			t.Errorf("%s: exit %d", name, got.code)
		}
	}
}
