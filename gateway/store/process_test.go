// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

const roleVariable = "STORE_TEST_ROLE"

// TestHelperProcess is not a test: it is what this binary does as the child of
// one. It speaks in lines on its standard output.
func TestHelperProcess(t *testing.T) {
	dir := os.Getenv("STORE_TEST_DIR")
	switch os.Getenv(roleVariable) {
	case "":
		t.Skip("only as a child of other tests")
	case "holder":
		holdLock(t, dir)
	case "writer":
		writeForEver(t, dir)
	case "gateway":
		h := engine{config: store.Config{Dir: dir}}.open(t)
		fmt.Println("open")
		waitForEOF(t)
		h.close(t)
	}
}

// holdLock is another program with a transaction open, such as a backup.
func holdLock(t *testing.T, dir string) {
	db := engine{config: store.Config{Dir: dir}}.raw(t)
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	waitForEOF(t)
	if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
}

func waitForEOF(t *testing.T) {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
}

// writeForEver writes sandboxes with three services each and says so after each
// commit, until it is killed.
func writeForEver(t *testing.T, dir string) {
	h := engine{config: store.Config{Dir: dir}}.open(t)
	for n := 0; ; n++ {
		var version uint64
		var id string
		if err := h.try(func(tx store.Tx) error {
			s, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: fmt.Sprintf("n-%d-%d", os.Getpid(), n)})
			if err != nil {
				return err
			}
			id = s.ID
			for _, name := range []string{"a", "b", "c"} {
				svc, err := tx.InsertService(store.Service{SandboxID: id, Name: name, Port: 1, Annotations: map[string]string{"pad": strings.Repeat("x", 3000)}})
				if err != nil {
					return err
				}
				version = svc.ResourceVersion
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("wrote %s %d\n", id, version)
	}
}

// child is a TestHelperProcess of its own.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "STORE_TEST_DIR="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	t.Cleanup(c.kill)
	return c
}

// expect reads on until a line with that prefix, and returns the rest of it.
func (c *child) expect(t *testing.T, prefix string) string {
	t.Helper()
	for c.lines.Scan() {
		if rest, ok := strings.CutPrefix(c.lines.Text(), prefix); ok {
			return rest
		}
	}
	t.Fatalf("the child ended without a line %q", prefix)
	return ""
}

// release lets the child end by itself and waits until it has.
func (c *child) release(t *testing.T) {
	t.Helper()
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for c.lines.Scan() {
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// kill ends the child as kill -9 does. What it said last can still be read.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
}
