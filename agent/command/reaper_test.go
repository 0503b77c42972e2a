// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// The test binary plays other processes when this variable is set.
const roleVar = "COMMAND_TEST_ROLE"

// testOrphans is how many processes lose their parent in the role init.
const testOrphans = 200

// initReport is what the role init found out.
type initReport struct {
	Pid     int
	Orphans uint64
	Zombies int
	Wrong   []string // commands whose exit code was not theirs
	Error   string
}

// roleInit is process 1 of a PID namespace: it runs commands while orphans rain
// on it.
func roleInit() int {
	rep := initReport{Pid: os.Getpid()}
	if err := rep.run(); err != nil {
		rep.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(rep); err != nil {
		return 1
	}
	return 0
}

func (rep *initReport) run() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	logger := slog.New(slog.DiscardHandler)
	r := NewReaper(logger)
	ctx, cancel := context.WithCancel(context.Background())
	reaped := make(chan error, 1)
	go func() { reaped <- r.Run(ctx) }()

	var wg sync.WaitGroup
	var mu sync.Mutex
	check := func(script string, want int) {
		code, err := Run(ctx, Config{Argv: []string{"sh", "-c", script}, Reaper: r, Logger: logger})
		if err != nil || code != want {
			mu.Lock()
			defer mu.Unlock()
			rep.Wrong = append(rep.Wrong, fmt.Sprintf("%.20s: code %d, error %v, want %d", script, code, err, want))
		}
	}
	for worker := range 4 {
		wg.Go(func() {
			for i := range 25 {
				check(fmt.Sprintf("exit %d", worker*25+i), worker*25+i)
			}
			check("kill -KILL $$", 137)
		})
	}
	wg.Go(func() {
		// Each subshell leaves its child to process 1.
		check(fmt.Sprintf("i=0; while [ $i -lt %d ]; do (sleep 0.01 &); i=$((i+1)); done; exit 42", testOrphans), 42)
	})
	wg.Wait()

	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); r.Orphans() < testOrphans && time.Now().Before(deadline); <-tick.C {
	}
	rep.Orphans, rep.Zombies = r.Orphans(), zombies()
	cancel()
	return <-reaped
}

func zombies() (n int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return -1
	}
	for _, d := range dirs {
		if state(filepath.Base(d)) == 'Z' {
			n++
		}
	}
	return n
}

func TestReaperAsProcess1(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a PID namespace")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"=init", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("process 1: %v", err)
	}
	var rep initReport
	if err := json.Unmarshal(out, &rep); err != nil {
		t.Fatal(err)
	}
	t.Logf("report: %+v", rep)
	if rep.Error != "" || rep.Pid != 1 || rep.Orphans != testOrphans || rep.Zombies != 0 || len(rep.Wrong) > 0 {
		t.Fatalf("%+v: want process 1, %d orphans, no zombies, nothing wrong", rep, testOrphans)
	}
}

// Outside process 1 the Reaper has the children it started, and works the same.
func TestReaperHandsOutStatuses(t *testing.T) {
	r := NewReaper(testkit.Logger(t))
	ctx, cancel := context.WithCancel(t.Context())
	cfg := shell(t, "exit 11")
	cfg.Reaper = r
	// Started before the Reaper runs: the status is collected by its first sweep.
	early := background(t.Context(), cfg)
	reaped := make(chan error, 1)
	go func() { reaped <- r.Run(ctx) }()
	if code := await(t, early); code != 11 {
		t.Fatalf("code %d, want 11", code)
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			cfg := shell(t, fmt.Sprintf("exit %d", i))
			cfg.Reaper = r
			if code, err := Run(t.Context(), cfg); code != i || err != nil {
				t.Errorf("code %d, error %v, want %d", code, err, i)
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-reaped; err != nil {
		t.Fatal(err)
	}
}

func TestSignalAfterTheEnd(t *testing.T) {
	r := NewReaper(testkit.Logger(t))
	cfg := shell(t, "exit 0")
	cfg.Reaper = r
	c, err := start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.release()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(r.owned) > 0 {
		r.sweep()
		<-tick.C
	}
	if err := c.signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signal to a pid that was waited for: %v", err)
	}
	if res := <-c.exited; res.status.ExitStatus() != 0 || res.err != nil {
		t.Fatalf("result %+v", res)
	}
}

// roleParent runs a command and is killed meanwhile.
func roleParent() int {
	_, err := Run(context.Background(), Config{
		Argv: []string{"sh", "-c", "echo $$; while :; do sleep 0.01; done"}, Stdout: os.Stdout, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return 1
	}
	return 0
}

func TestCommandDiesWithTheAgent(t *testing.T) {
	cfg := Config{} // only to have a pipe with a deadline
	out := output(t, &cfg)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"=parent")
	cmd.Stdout = cfg.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := line(t, out)
	if _, err := strconv.Atoi(pid); err != nil {
		t.Errorf("the command printed %q, not its pid", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the parent was not killed")
	}
	gone(t, pid)
}
