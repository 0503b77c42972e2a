// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// processDriver is a driver program: a line of JSON in, a line of JSON out.
type processDriver struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	t      *testing.T
}

// startDriver starts a program below the top of the tree, or what runs it with
// the program as its argument.
func startDriver(t *testing.T, s *stage, program string, runner ...string) driver {
	t.Helper()
	file := filepath.Join(kit.Root(), program)
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CONFORMANCE_REQUIRE") != "" {
			t.Fatalf("%v: it has to be built first", err)
		}
		t.Skipf("%v: it is not built", err)
	}
	args := append(runner, file)
	d := &processDriver{cmd: exec.CommandContext(t.Context(), args[0], args[1:]...), t: t}
	d.cmd.Env, d.cmd.Stderr = s.env, &d.stderr
	in, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.in, d.out = in, bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *processDriver) do(_ context.Context, call object) object {
	line, err := json.Marshal(call)
	if err != nil {
		return failed("Driver", err.Error())
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		return failed("Driver", err.Error())
	}
	answer, err := d.out.ReadBytes('\n')
	if err != nil {
		return failed("Driver", fmt.Sprintf("its answer: %v", err))
	}
	result := object{}
	if err := json.Unmarshal(answer, &result); err != nil {
		return failed("Driver", fmt.Sprintf("it says %q: %v", answer, err))
	}
	return result
}

// close tells the program that there is no more, and waits for its end.
func (d *processDriver) close() error {
	d.in.Close()
	rest, _ := io.ReadAll(d.out)
	err := d.cmd.Wait()
	if d.stderr.Len() > 0 {
		d.t.Logf("the driver: %s", d.stderr.Bytes())
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("it went on: %q", rest)
	}
	return err
}
