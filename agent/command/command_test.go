// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "init":
		os.Exit(roleInit())
	case "parent":
		os.Exit(roleParent())
	}
	testkit.Main(m)
}

// patience bounds every wait for an event; it is never waited for in full
// unless the test fails.
const patience = 20 * time.Second

// shell returns a Config that runs script.
func shell(t *testing.T, script string) Config {
	t.Helper()
	return Config{Argv: []string{"sh", "-c", script}, Logger: testkit.Logger(t)}
}

// output gives cfg a pipe as stdout and returns its lines.
func output(t *testing.T, cfg *Config) *bufio.Reader {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	cfg.Stdout = w
	return bufio.NewReader(r)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read the command's output: %v", err)
	}
	return strings.TrimSuffix(s, "\n")
}

type ended struct {
	code int
	err  error
}

// background runs cfg; the result comes on the channel.
func background(ctx context.Context, cfg Config) <-chan ended {
	done := make(chan ended, 1)
	go func() {
		code, err := Run(ctx, cfg)
		done <- ended{code, err}
	}()
	return done
}

func await(t *testing.T, done <-chan ended) int {
	t.Helper()
	select {
	case e := <-done:
		if e.err != nil {
			t.Fatalf("Run: %v", e.err)
		}
		return e.code
	case <-time.After(patience):
		t.Fatal("Run did not return")
		return 0
	}
}

// gone waits until pid has ended; a zombie has.
func gone(t *testing.T, pid string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if s := state(pid); s == 0 || s == 'Z' || s == 'X' {
			return
		}
	}
	if n, err := strconv.Atoi(pid); err == nil && n > 1 {
		_ = syscall.Kill(n, syscall.SIGKILL) // it would run for ever
	}
	t.Fatalf("process %s still runs", pid)
}

// state returns the state letter of a process, 0 if there is none.
func state(pid string) byte {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, ok := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	if !ok || rest == "" {
		return 0
	}
	return rest[0]
}

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137, "kill -USR1 $$": 138,
		"read x; exit $?": 1, // stdin is empty
	} {
		if code, err := Run(t.Context(), shell(t, script)); code != want || err != nil {
			t.Errorf("%q: code %d, error %v, want %d", script, code, err, want)
		}
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := write("a/tool", "#!/bin/sh\nexit 9\n", 0o600)
	write("b/tool", "#!/bin/sh\nexit 9\n", 0o700)
	garbage := write("garbage", "\x00\x01", 0o700)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o700)
	for _, tc := range []struct {
		name string
		cfg  Config
		code int
		want string // in the error; empty: it runs
	}{
		{"no command", Config{}, 127, "empty"},
		{"empty name", Config{Argv: []string{""}}, 127, "empty"},
		{"not in PATH", Config{Argv: []string{"tool"}, Env: []string{"PATH=/nonexistent"}}, 127, "not found in PATH"},
		{"no PATH", Config{Argv: []string{"sh"}, Env: []string{}}, 127, "not found in PATH"},
		{"no such file", Config{Argv: []string{dir + "/none"}}, 127, "no such file"},
		{"below a file", Config{Argv: []string{plain + "/x"}}, 127, "not a directory"},
		{"no such interpreter", Config{Argv: []string{orphan}}, 127, "no such file"},
		{"not executable", Config{Argv: []string{plain}}, 126, "permission denied"},
		{"not executable in PATH", Config{Argv: []string{"tool"}, Env: []string{"PATH=" + dir + "/a"}}, 126, "permission denied"},
		{"directory", Config{Argv: []string{dir}}, 126, "is a directory"},
		{"not a program", Config{Argv: []string{garbage}}, 126, "exec format error"},
		{"no such directory", Config{Argv: []string{"sh"}, Dir: dir + "/none"}, 126, "working directory: no such file"},
		{"directory is a file", Config{Argv: []string{"sh"}, Dir: plain}, 126, "working directory: not a directory"},
		{"found later in PATH", Config{Argv: []string{"tool"}, Env: []string{"PATH=:" + dir + "/a:" + dir + "/b"}}, 9, ""},
		{"last PATH counts", Config{Argv: []string{"tool"}, Env: []string{"PATH=/x", "PATH=" + dir + "/b"}}, 9, ""},
		{"relative to Dir", Config{Argv: []string{"./tool"}, Dir: dir + "/b"}, 9, ""},
		{"PATH relative to Dir", Config{Argv: []string{"tool"}, Env: []string{"PATH="}, Dir: dir + "/b"}, 127, "not found"},
		{"empty PATH element is Dir", Config{Argv: []string{"tool"}, Env: []string{"PATH=/x:"}, Dir: dir + "/b"}, 9, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Logger = testkit.Logger(t)
			code, err := Run(t.Context(), tc.cfg)
			if code != tc.code {
				t.Errorf("code %d, want %d (error %v)", code, tc.code, err)
			}
			var se *StartError
			switch {
			case tc.want == "":
				if err != nil {
					t.Errorf("error %v", err)
				}
			case !errors.As(err, &se) || se.Code != tc.code || !strings.Contains(err.Error(), tc.want):
				t.Errorf("error %v, want a StartError with %d and %q", err, tc.code, tc.want)
			}
		})
	}
}

func TestEnvironmentAndDirectory(t *testing.T) {
	cfg := shell(t, "pwd; exec /usr/bin/env")
	out := output(t, &cfg)
	cfg.Argv[0] = "/bin/sh"
	cfg.Dir, cfg.Env = "/", []string{"A=1", "B=two words"}
	if code := await(t, background(t.Context(), cfg)); code != 0 {
		t.Fatalf("code %d", code)
	}
	cfg.Stdout.Close()
	all, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	got := string(all)
	if !strings.HasPrefix(got, "/\n") || !strings.Contains(got, "A=1\n") || !strings.Contains(got, "B=two words\n") || strings.Contains(got, "HOME=") {
		t.Fatalf("the command saw:\n%s", got)
	}
}

func TestSignalsReachTheLeader(t *testing.T) {
	names := map[os.Signal]string{
		syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGTERM: "TERM",
		syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2", syscall.SIGWINCH: "WINCH",
	}
	if len(names) != len(Forwarded()) {
		t.Fatalf("Forwarded() has %d signals, want %d", len(Forwarded()), len(names))
	}
	var script strings.Builder
	for _, sig := range Forwarded() {
		script.WriteString("trap 'echo " + names[sig] + "' " + names[sig] + "\n")
	}
	script.WriteString("trap 'echo CONT' CONT; echo ready; while :; do sleep 0.01; done")
	cfg := shell(t, script.String())
	out := output(t, &cfg)
	signals := make(chan os.Signal)
	cfg.Signals, cfg.Grace = signals, time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := background(ctx, cfg)
	if got := line(t, out); got != "ready" {
		t.Fatalf("output %q", got)
	}
	for _, sig := range Forwarded() {
		signals <- syscall.SIGCONT // not one of ours: ignored
		signals <- sig
		if got := line(t, out); got != names[sig] {
			t.Fatalf("after %v the command printed %q", sig, got)
		}
	}
	close(signals)
	cancel()
	if code := await(t, done); code != 137 {
		t.Fatalf("code %d, want 137", code)
	}
}
