// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"golang.org/x/sys/unix"
)

// Tests named TestLocal… run as root and again as nobody.

func TestLocalView(t *testing.T) {
	w := newWorld(t)
	t.Setenv("SECRET_OF_THE_GATEWAY", "hunter2")
	s := spec("alpha", "view", w.state)
	s.Environment = map[string]string{"GREETING": "hello", "HOME": "/tmp"}
	s.LogLevel = "debug"
	ln, err := net.Listen("unix", w.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w.start(t, s)
	var v view
	if err := json.Unmarshal([]byte(w.line(t, "alpha")), &v); err != nil {
		t.Fatal(err)
	}
	token := w.driver.TokenFile("alpha")
	wantArgs := []string{
		"sandbox-agent", "run", "--gateway", "unix:" + w.cfg.Socket, "--token-file", token,
		"--ops-listen", "127.0.0.1:17692", "--", "view", w.state,
	}
	if v.Pid != 1 || v.Session != 1 || v.Host != "alpha" || v.Uid != 0 || v.Processes != 1 || !slices.Equal(v.Args, wantArgs) {
		t.Errorf("process %+v", v)
	}
	if v.Stdin != "<nil>" || v.Token != testToken {
		t.Errorf("stdin %q, token %q", v.Stdin, v.Token)
	}
	if !slices.Contains(v.Addresses, "127.0.0.1/8") || slices.ContainsFunc(v.Addresses, func(a string) bool {
		return a != "127.0.0.1/8" && a != "::1/128"
	}) {
		t.Errorf("addresses %v", v.Addresses)
	}
	wantState := []string{
		w.state, filepath.Dir(w.cfg.Socket), w.cfg.Socket,
		w.cfg.Dir, filepath.Join(w.cfg.Dir, "alpha"), filepath.Dir(token), token,
	}
	if !slices.Equal(v.State, wantState) {
		t.Errorf("the sandbox sees %q of the state directory, want %q", v.State, wantState)
	}
	if len(v.CanWrite) > 0 {
		t.Errorf("the sandbox can write into %q", v.CanWrite)
	}
	wantEnv := []string{"GREETING=hello", "HOME=/tmp", "PATH=" + os.Getenv("PATH"), LogLevelVar + "=debug"}
	if !slices.Equal(v.Env, wantEnv) {
		t.Errorf("environment %q, want %q", v.Env, wantEnv)
	}
	for path, mode := range map[string]fs.FileMode{token: 0o600, w.driver.files.logPath("alpha"): 0o600, w.driver.files.recordPath("alpha"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

func TestLocalSamePortTwice(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"one", "two"} {
		w.start(t, spec(id, "serve"))
	}
	for _, id := range []string{"one", "two"} {
		if got, want := w.line(t, id), "8080 is "+id+" <nil>"; got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func TestLocalSocketAndTokenAreReplaced(t *testing.T) {
	w := newWorld(t)
	w.start(t, spec("alpha", "session"))
	ask := func(want string) {
		t.Helper()
		ln, err := net.Listen("unix", w.cfg.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close() // removes the socket; the next call makes it anew
		if err := ln.(*net.UnixListener).SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintln(conn, "token?"); err != nil {
			t.Fatal(err)
		}
		got, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || got != want+"\n" {
			t.Fatalf("the agent said %q, error %v, want %q", got, err, want)
		}
	}
	ask(testToken)
	if err := w.driver.RenewToken("alpha", secret.New("second")); err != nil {
		t.Fatal(err)
	}
	ask("second")
	if err := w.driver.RenewToken("beta", secret.New("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("token of a sandbox that is not there: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(w.driver.TokenFile("alpha")))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the token: %v, %v", entries, err)
	}
}

func TestLocalStopKillsEverything(t *testing.T) {
	w := newWorld(t)
	w.cfg.StopGrace = 100 * time.Millisecond
	w.driver = w.open(t)
	w.start(t, spec("alpha", "stubborn"))
	if got := w.line(t, "alpha"); got != "ready" {
		t.Fatalf("log: %q", got)
	}
	ns := pidNamespace(t, w.record(t, "alpha").Pid)
	if n := members(t, ns); n != 2 {
		t.Fatalf("%d processes in the sandbox, want 2", n)
	}
	begin := time.Now()
	if err := w.driver.Stop(t.Context(), "alpha"); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d < w.cfg.StopGrace {
		t.Errorf("killed after %v, before the grace", d)
	}
	if n := members(t, ns); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	noChildren(t)
	if _, err := os.Stat(w.driver.files.logPath("alpha")); err != nil {
		t.Errorf("the log went with Stop: %v", err)
	}
	for range 2 { // idempotent
		if err := w.driver.Stop(t.Context(), "alpha"); err != nil {
			t.Fatal(err)
		}
	}
	w.noExit(t)
	// And again from the same files.
	w.start(t, spec("alpha", "exit", "3"))
	if e := w.exit(t); e != (Exit{ID: "alpha", Generation: 1, Code: 3}) {
		t.Errorf("exit %+v", e)
	}
}

func TestLocalContextCutsTheGrace(t *testing.T) {
	w := newWorld(t)
	w.start(t, spec("alpha", "stubborn"))
	w.line(t, "alpha")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.driver.Stop(ctx, "alpha") }()
	eventually(t, "Stop has begun", func() bool {
		w.driver.mu.Lock()
		defer w.driver.mu.Unlock()
		p := w.driver.procs["alpha"]
		return p != nil && p.asked
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	noChildren(t)
}

func TestLocalDeleteLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.start(t, spec("alpha", "serve"))
	w.line(t, "alpha")
	ns := pidNamespace(t, w.record(t, "alpha").Pid)
	for range 2 {
		if err := w.driver.Delete(t.Context(), "alpha"); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(w.cfg.Dir); err != nil || len(entries) != 0 {
		t.Errorf("files are left: %v, %v", entries, err)
	}
	if n := members(t, ns); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	noChildren(t)
	w.noExit(t)
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), w.state) {
		t.Errorf("a mount is left outside (error %v)", err)
	}
}

func TestLocalExitCodes(t *testing.T) {
	w := newWorld(t)
	for _, code := range []int{0, 7, 255} {
		s := spec(fmt.Sprint("exit", code), "exit", fmt.Sprint(code))
		s.Generation = uint64(code) + 5
		w.start(t, s)
		if e := w.exit(t); e != (Exit{ID: s.ID, Generation: s.Generation, Code: code}) {
			t.Errorf("exit %+v, want code %d", e, code)
		}
	}
	w.start(t, spec("killed", "serve"))
	w.line(t, "killed")
	if err := unix.Kill(w.record(t, "killed").Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := w.exit(t); e.Code != 128+int(unix.SIGKILL) {
		t.Errorf("exit %+v, want code 137", e)
	}
	noChildren(t)
}

func TestLocalFailedStartLeavesNothing(t *testing.T) {
	w := newWorld(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte{0, 1}, 0o700); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name  string
		ctx   context.Context
		agent string
		is    error
		text  string
	}{
		{"no agent", t.Context(), "/nonexistent/agent", fs.ErrNotExist, "AgentPath"},
		{"agent is no program", t.Context(), garbage, syscall.ENOEXEC, "execute sandbox-agent"},
		{"context has ended", cancelled, w.cfg.AgentPath, context.Canceled, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := w.cfg
			cfg.AgentPath = tc.agent
			d := NewLocal(cfg)
			defer d.Close()
			err := d.Start(tc.ctx, spec("alpha", "serve"))
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want %v with %q", err, tc.is, tc.text)
			}
			if entries, err := os.ReadDir(w.cfg.Dir); err != nil || len(entries) != 0 {
				t.Errorf("files are left: %v, %v", entries, err)
			}
			noChildren(t)
			w.noExit(t)
		})
	}
}

// A gateway that dies between clone and order must not leave a stage behind.
func TestLocalStageWithoutOrderEnds(t *testing.T) {
	needNamespaces(t)
	for name, partial := range map[string]string{"nothing": "", "half an order": `{"Hostname":"x","Path":"/bin/`} {
		t.Run(name, func(t *testing.T) {
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			s, err := clone(null)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.order.WriteString(partial); err != nil {
				t.Error(err)
			}
			s.close()
			var ws unix.WaitStatus
			if _, err := unix.Wait4(s.pid, &ws, 0, nil); err != nil {
				t.Fatal(err)
			}
			// It has nobody to tell, so its status is a broken pipe or 3.
			if ws.Exited() && ws.ExitStatus() == 0 {
				t.Error("a stage without an order succeeded")
			}
		})
	}
}

func TestLocalConcurrentCalls(t *testing.T) {
	w := newWorld(t)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range 4 {
		id := fmt.Sprint("box", i)
		wg.Go(func() {
			if err := w.driver.Start(t.Context(), spec(id, "serve")); err != nil {
				t.Errorf("start %s: %v", id, err)
			}
			if err := w.driver.Start(t.Context(), spec(id, "serve")); !errors.Is(err, ErrRunning) {
				t.Errorf("second start of %s: %v, want ErrRunning", id, err)
			}
			if _, err := os.Stat(w.driver.TokenFile(id)); err != nil {
				t.Errorf("the refused start took the files: %v", err)
			}
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					if err := w.driver.Delete(t.Context(), id); err != nil {
						t.Errorf("delete %s: %v", id, err)
					}
				})
			}
			both.Wait()
		})
	}
	wg.Wait()
	// An agent that is just being executed has no handler, and would never see
	// a SIGTERM that came now.
	if d := time.Since(begin); d >= DefaultStopGrace {
		t.Errorf("stops took %v: a signal was lost", d)
	}
	noChildren(t)
	w.noExit(t)
	if n := len(w.driver.turns.held); n != 0 {
		t.Errorf("%d turns are left", n)
	}
}

// The suite again, where every sandbox has a user namespace.
func TestAsNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("already not root: the other tests used user namespaces")
	}
	cmd := exec.Command(publicSelf(t), "-test.run=^TestLocal", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/tmp", "GORACE=" + quickExit, agentVar + "=" + cmd.Path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	if n := strings.Count(string(out), "--- SKIP"); n > 0 {
		t.Logf("%d tests skipped as nobody:\n%s", n, out)
	} else if !strings.Contains(string(out), "--- PASS: TestLocalView") {
		t.Errorf("as nobody nothing ran:\n%s", out)
	}
}
