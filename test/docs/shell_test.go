// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// shell is one bash that runs block after block, as somebody who follows a page
// has it: variables and background jobs stay. It ends at the first command that
// fails.
type shell struct {
	t     *testing.T
	in    io.Writer
	lines chan string // what it prints, closed at its end
}

const (
	done    = "-- the block is done --"
	patient = 2 * time.Minute // for a block; make build may have to compile
)

// newShell starts a shell in the top of the tree. At the end of the test it and
// whatever it has started end.
func newShell(t *testing.T, env ...string) *shell {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc", "-s")
	cmd.Dir = kit.Root()
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	s := &shell{t: t, in: in, lines: make(chan string)}
	stop := make(chan struct{})
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			select {
			case s.lines <- lines.Text():
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		in.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		read.Close()
		for range s.lines {
		}
	})
	s.run("set -euo pipefail")
	return s
}

// run runs a block and returns what it has printed.
func (s *shell) run(block string) (printed []string) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, "%s\necho '%s'\n", block, done); err != nil {
		s.t.Fatal(err)
	}
	limit := time.NewTimer(patient)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-s.lines:
			if line == done {
				return printed
			}
			if !ok {
				s.t.Fatalf("a command has failed:\n%s\n%s", block, strings.Join(printed, "\n"))
			}
			printed = append(printed, line)
		case <-limit.C:
			s.t.Fatalf("not done within %s:\n%s\n%s", patient, block, strings.Join(printed, "\n"))
		}
	}
}

func TestShell(t *testing.T) {
	s := newShell(t, "A=1")
	if got := s.run("b=2\nfalse || echo $A"); len(got) != 1 || got[0] != "1" {
		t.Errorf("printed %q", got)
	}
	if got := s.run("echo $b\necho c >&2"); strings.Join(got, " ") != "2 c" {
		t.Errorf("printed %q", got)
	}
}
