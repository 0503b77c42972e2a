// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// bed is a kit.Bed for one test. It fails the test if a gateway logs an error.
type bed struct {
	*kit.Bed
	t    *testing.T
	ctx  context.Context
	dir  string
	said func() string // what the processes have logged so far
}

// newBed returns a bed whose sandboxes and processes end with the test.
func newBed(t *testing.T) *bed {
	t.Helper()
	// Not t.TempDir: sandboxes of another user must get at what is in it.
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	log, said, wait := logTo(t)
	kb, err := kit.New(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.Close()
		wait()
		if t.Failed() {
			sandboxLogs(t, kb.State)
		}
		os.RemoveAll(dir)
	})
	return &bed{Bed: kb, t: t, ctx: t.Context(), dir: dir, said: said}
}

// logTo returns a file that processes can write to; its lines go to the test.
func logTo(t *testing.T) (w *os.File, said func() string, wait func()) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.Close()
		s := bufio.NewScanner(r)
		for s.Scan() {
			mu.Lock()
			all.WriteString(s.Text() + "\n")
			mu.Unlock()
			t.Log(s.Text())
			if strings.Contains(s.Text(), "level=ERROR") {
				t.Errorf("an error was logged: %s", s.Text())
			}
		}
	}()
	said = func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
	return w, said, func() { <-done }
}

func sandboxLogs(t *testing.T, state string) {
	files, _ := filepath.Glob(filepath.Join(state, "sandboxes", "*", "log"))
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(io.LimitReader(f, 16<<10))
		f.Close()
		t.Logf("%s:\n%s", name, b)
	}
}

// gateway starts a gateway that ends with the test; sandboxes are deleted
// before it ends.
func (b *bed) gateway(args ...string) *kit.Process {
	b.t.Helper()
	p, err := b.Gateway(b.ctx, args...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if p.Exited() {
			return
		}
		ctx := context.WithoutCancel(b.ctx)
		for line := range strings.Lines(b.CLI(ctx, "sandbox", "list").Stdout) {
			if name, _, ok := strings.Cut(line, " "); ok && name != "NAME" {
				b.CLI(ctx, "sandbox", "delete", name)
			}
		}
		if code, err := p.Stop(); code != 0 || err != nil {
			b.t.Errorf("the gateway ended with %d, %v", code, err)
		}
	})
	return p
}

// cli runs the CLI, which must succeed.
func (b *bed) cli(args ...string) string {
	b.t.Helper()
	r := b.CLI(b.ctx, args...)
	if r.Code != 0 {
		b.t.Fatalf("sandboxctl %s: exit %d: %s", strings.Join(args, " "), r.Code, r.Stderr)
	}
	return r.Stdout
}

// until waits for a health; see kit.UntilHealth.
func (b *bed) until(limit time.Duration, sandbox, name string, want ...string) {
	b.t.Helper()
	if err := b.UntilHealth(b.ctx, limit, sandbox, name, want...); err != nil {
		b.t.Fatal(err)
	}
}

// health returns a service's health as kit.Health renders it.
func (b *bed) health(sandbox, name string) string {
	b.t.Helper()
	r, err := b.Service(b.ctx, sandbox, name)
	if err != nil {
		b.t.Fatal(err)
	}
	return kit.Health(r.GetHealth())
}
