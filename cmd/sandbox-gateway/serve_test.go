// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/sdnotify/sdnotifytest"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// asGateway makes the test binary the gateway, so that a test can have one in a
// process of its own.
const asGateway = "TEST_AS_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(asGateway) != "" {
		os.Unsetenv(asGateway)
		main()
	}
	testkit.Main(m)
}

// The end of whoever reads its log is not the gateway's.
func TestLogThatNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	m := sdnotifytest.New(t)
	cmd := exec.Command(os.Args[0], serveArgs(stateDir(t))...)
	cmd.Env = append(m.Environ(), asGateway+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	m.Hears(10*time.Second, "READY=1") // after it has logged
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The service manager hears of start, state, reload and stop.
func TestServeTellsItsManager(t *testing.T) {
	dir, m := t.TempDir(), sdnotifytest.New(t)
	file := filepath.Join(dir, "config.yaml")
	hears := func(wanted ...string) {
		t.Helper()
		for _, want := range wanted {
			m.Hears(10*time.Second, want)
		}
	}
	configure := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	configure("log-level: warn\n")
	signals, status := make(chan os.Signal, 1), make(chan int, 1)
	var logged strings.Builder // to be read once the gateway has ended
	go func() {
		status <- run(context.Background(), signals, []string{
			"serve", "--config", file, "--state-dir", filepath.Join(dir, "state"), "--drain-grace", "10m",
			"--grpc-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--supervisor-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		}, m.Environ(), &logged, &logged)
	}()
	hears("READY=1", "WATCHDOG=1", "STATUS=0 sessions, 0 services observed; ready")
	configure("log-level: info\nrouting-domain: other.example\n")
	signals <- syscall.SIGHUP
	hears("RELOADING=1", "READY=1", "WATCHDOG=1")
	signals <- syscall.SIGTERM // drains
	m.Forget()
	hears("STOPPING=1", "WATCHDOG=1")
	signals <- syscall.SIGINT // cuts the grace
	if code := <-status; code != 0 {
		t.Errorf("status %d", code)
	}
	for _, want := range []string{
		`msg="the configuration was reloaded"`,
		`msg="settings that take effect at the next start have changed" settings=[routing-domain]`,
	} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("not logged: %s\n%s", want, logged.String())
		}
	}
	if strings.Contains(logged.String(), "gateway started") {
		t.Errorf("the level of the file has no effect:\n%s", logged.String())
	}
}

// The URL of a database
// comes from the environment or else from a credential.
func TestDatabaseURL(t *testing.T) {
	dir := t.TempDir()
	get := func(environ ...string) string {
		t.Helper()
		u, err := readDatabaseURL(lookup(environ))
		if err != nil {
			t.Fatal(err)
		}
		return u.Reveal()
	}
	if got := get("CREDENTIALS_DIRECTORY=" + dir); got != "" {
		t.Errorf("without credential: %q", got)
	}
	name := filepath.Join(dir, "sandbox-database-url")
	if err := os.WriteFile(name, []byte("postgres://credential\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get("CREDENTIALS_DIRECTORY=" + dir); got != "postgres://credential" {
		t.Errorf("credential: %q", got)
	}
	if got := get("CREDENTIALS_DIRECTORY="+dir, "SANDBOX_GATEWAY_DATABASE_URL=postgres://variable"); got != "postgres://variable" {
		t.Errorf("both: %q", got)
	}
	if err := os.WriteFile(name, make([]byte, maxURL+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readDatabaseURL(lookup([]string{"CREDENTIALS_DIRECTORY=" + dir})); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("an endless credential: %v", err)
	}
}
