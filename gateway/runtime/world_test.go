// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"golang.org/x/sys/unix"
)

const (
	roleVar  = "RUNTIME_TEST_ROLE"  // what the test binary plays
	agentVar = "RUNTIME_TEST_AGENT" // a path to the test binary that anybody can execute
	orderVar = "RUNTIME_TEST_ORDER" // gatewayOrder of the role gateway, as JSON
)

// patience bounds every wait for an event.
const patience = 20 * time.Second

// quickExit keeps a test binary that was built with the race detector from
// waiting a second before it exits.
const quickExit = "atexit_sleep_ms=0"

const testToken = "token-of-the-test"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == InitArg:
		os.Exit(Init(os.Args[2:]))
	case os.Args[0] == agentName && len(os.Args) > 1 && os.Args[1] == "run":
		os.Exit(fakeAgent(os.Args))
	case os.Getenv(roleVar) == "gateway":
		os.Exit(roleGateway())
	case os.Getenv(roleVar) == "kernel":
		os.Exit(roleKernel())
	}
	testkit.Main(m)
}

// world is a state directory and a local driver on it.
type world struct {
	state  string
	cfg    Config
	exits  chan Exit
	driver *local
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needNamespaces(t)
	w := &world{state: filepath.Join(t.TempDir(), "state"), exits: make(chan Exit, 64)}
	for _, dir := range []string{"run", "sandboxes"} {
		if err := os.MkdirAll(filepath.Join(w.state, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"admin-token", "ca.key"} {
		if err := os.WriteFile(filepath.Join(w.state, file), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.cfg = Config{
		Dir: filepath.Join(w.state, "sandboxes"), Socket: filepath.Join(w.state, "run", "supervisor.sock"),
		AgentPath: publicSelf(t), Logger: testkit.Logger(t), OnExit: func(e Exit) { w.exits <- e },
	}
	w.driver = w.open(t)
	return w
}

// open makes a driver on the same directory; at the test's end it deletes what
// is there.
func (w *world) open(t *testing.T) *local {
	t.Helper()
	d := NewLocal(w.cfg).(*local)
	t.Cleanup(func() {
		dirs, err := os.ReadDir(w.cfg.Dir)
		if err != nil {
			t.Error(err)
		}
		for _, dir := range dirs {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // no grace
			unlockedDelete(t, d, ctx, dir.Name())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// unlockedDelete deletes with a context that has ended, which may lose the race
// for the turn.
func unlockedDelete(t *testing.T, d *local, ctx context.Context, id string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		err := d.Delete(ctx, id)
		if err == nil || errors.Is(err, ErrClosed) {
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("clean up %s: %v", id, err)
			return
		}
	}
	t.Errorf("clean up %s: never got a turn", id)
}

func spec(id string, command ...string) Spec {
	return Spec{
		ID: id, Workspace: "default", Name: id, Generation: 1, Token: secret.New(testToken), Command: command,
		Environment: map[string]string{"GORACE": quickExit},
	}
}

func (w *world) start(t *testing.T, s Spec) {
	t.Helper()
	if err := w.driver.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the next Exit.
func (w *world) exit(t *testing.T) Exit {
	t.Helper()
	select {
	case e := <-w.exits:
		return e
	case <-time.After(patience):
		t.Fatal("no exit was told")
		return Exit{}
	}
}

func (w *world) noExit(t *testing.T) {
	t.Helper()
	select {
	case e := <-w.exits:
		t.Fatalf("an exit was told: %+v", e)
	default:
	}
}

// eventually polls what nobody announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", patience, what)
}

// line waits for the first whole line of a sandbox's log.
func (w *world) line(t *testing.T, id string) string {
	t.Helper()
	var line string
	eventually(t, "a line in the log of "+id, func() bool {
		data, _ := os.ReadFile(filepath.Join(w.cfg.Dir, id, "log"))
		i := bytes.IndexByte(data, '\n')
		if i >= 0 {
			line = string(data[:i])
		}
		return i >= 0
	})
	return line
}

func (w *world) record(t *testing.T, id string) record {
	t.Helper()
	rec, ok, err := w.driver.files.readRecord(id)
	if err != nil || !ok {
		t.Fatalf("record of %s: found %v, error %v", id, ok, err)
	}
	return rec
}

// pidNamespace names the PID namespace of a process.
func pidNamespace(t *testing.T, pid int) string {
	t.Helper()
	ns, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/pid"))
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// members counts the processes of a PID namespace, as seen from outside. One
// that has ended and waits for a stranger to reap it is none.
func members(t *testing.T, ns string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		stat, err := os.ReadFile(filepath.Join(l, "../../stat"))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) || bytes.Contains(stat, []byte(") X ")) {
			continue
		}
		if got, err := os.Readlink(l); err == nil && got == ns {
			n++
		}
	}
	return n
}

// noChildren fails if this process has a child that was not waited for.
func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("a child was left behind (wait: pid %d, error %v)", pid, err)
	}
}

// publicSelf returns a path to the test binary that any user can execute.
func publicSelf(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(agentVar); path != "" {
		return path
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// Its parent belongs to the test alone.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, agentName)
	if err := os.Link(self, path); err == nil {
		return path
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(to, from); err == nil {
		err = to.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// needNamespaces skips if the kernel refuses the namespaces to a process that
// has nothing of the driver in it.
func needNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"=kernel", "GORACE="+quickExit)
	cmd.SysProcAttr = namespaces(os.Geteuid(), os.Getegid())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("this kernel refuses namespaces: %v %s", err, out)
	}
}

// roleKernel tries in new namespaces what every local sandbox needs.
func roleKernel() int {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		fmt.Println("private mounts:", err)
		return 1
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("mount /proc:", err)
		return 1
	}
	return 0
}

// gatewayOrder is what the role gateway starts.
type gatewayOrder struct {
	Dir, Socket, Agent string
	Sandboxes          map[string][]string // id -> command
}

// roleGateway starts sandboxes, says so, and waits to be killed.
func roleGateway() int {
	var o gatewayOrder
	if err := json.Unmarshal([]byte(os.Getenv(orderVar)), &o); err != nil {
		return 1
	}
	d := NewLocal(Config{Dir: o.Dir, Socket: o.Socket, AgentPath: o.Agent, Logger: slog.New(slog.DiscardHandler)})
	for id, command := range o.Sandboxes {
		if err := d.Start(context.Background(), spec(id, command...)); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("started")
	_, _ = io.ReadAll(os.Stdin)
	return 0
}

// killedGateway starts sandboxes from another process and kills that with
// SIGKILL.
func (w *world) killedGateway(t *testing.T, sandboxes map[string][]string) {
	t.Helper()
	data, err := json.Marshal(gatewayOrder{Dir: w.cfg.Dir, Socket: w.cfg.Socket, Agent: w.cfg.AgentPath, Sandboxes: sandboxes})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"=gateway", "GORACE="+quickExit, orderVar+"="+string(data))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 512)
	n, err := out.Read(buf)
	if err != nil || strings.TrimSpace(string(buf[:n])) != "started" {
		t.Errorf("the gateway said %q, error %v", buf[:n], err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the gateway was not killed")
	}
}
