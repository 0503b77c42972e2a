// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// pageTimeout bounds one page; the longest part is a build from nothing.
const pageTimeout = 8 * time.Minute

// follow runs the commands of a page in one shell, as somebody does who types
// them, and compares what they print. before is called before the block that
// holds its key.
func (s *stage) follow(page string, before map[string]func()) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(kit.Root(), page))
	if err != nil {
		s.t.Fatal(err)
	}
	sh := s.shell()
	called := 0
	for _, b := range parse(string(text)) {
		for part, f := range before {
			if strings.Contains(b.command, part) {
				called++
				f()
			}
		}
		output, err := sh.run(b.command)
		if err != nil {
			s.t.Fatalf("%s:%d: %v\n%s\n%s", page, b.line, err, b.command, output)
		}
		output = s.asShown(output)
		s.t.Logf("%s:%d:\n%s%s", page, b.line, b.command, output)
		if b.shown == nil {
			continue
		}
		if wrong := compare(b.shown, strings.Split(output, "\n")); wrong != "" {
			s.t.Fatalf("%s:%d: the output %s\n%s", page, b.line, wrong, output)
		}
	}
	if called != len(before) {
		s.t.Errorf("%s: %d of the %d blocks that the test waits for", page, called, len(before))
	}
}

// shell is a bash that is given commands one after the other. It reads them
// from another descriptor than the commands' standard input, which is empty.
type shell struct {
	commands io.Writer
	output   *bufio.Reader
	n        int
}

func (s *stage) shell() *shell {
	s.t.Helper()
	commands, in, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, output, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("bash", "-eu", "/dev/fd/3")
	cmd.Dir, cmd.Env = kit.Root(), s.environment()
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, []*os.File{commands}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	commands.Close()
	output.Close()
	kill := func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	limit := time.AfterFunc(pageTimeout, kill)
	s.t.Cleanup(func() {
		limit.Stop()
		in.Close()
		kill()
		cmd.Wait()
		out.Close()
	})
	return &shell{commands: in, output: bufio.NewReader(out)}
}

// run returns what a block prints. The shell ends at the first command that
// fails.
func (sh *shell) run(command string) (string, error) {
	sh.n++
	mark := fmt.Sprintf("--- block %d is done ---\n", sh.n)
	if _, err := fmt.Fprintf(sh.commands, "%s\nprintf '%%s\\n' '%s'\n", command, strings.TrimSpace(mark)); err != nil {
		return "", err
	}
	var output strings.Builder
	for {
		line, err := sh.output.ReadString('\n')
		// What a process in the background printed last may have no end of line.
		if rest, done := strings.CutSuffix(line, mark); done {
			output.WriteString(rest)
			return output.String(), nil
		}
		output.WriteString(line)
		if err != nil {
			return output.String(), fmt.Errorf("a command failed: %w", err)
		}
	}
}

// A block that fails ends its page.
func TestShell(t *testing.T) {
	s := &stage{t: t, bed: &kit.Bed{Bin: "/bin"}, tmp: t.TempDir()}
	sh := s.shell()
	if out, err := sh.run("read -r line || echo no input\ncd /; printf x"); out != "no input\nx" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := sh.run("pwd"); out != "/\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := sh.run("false\necho on"); out != "" || err == nil {
		t.Errorf("got %q, %v", out, err)
	}
}
