// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/sdnotify/sdnotifytest"
)

// managed is an agent under a service manager.
type managed struct {
	*sdnotifytest.Manager
	t       *testing.T
	signals chan os.Signal
	stderr  *strings.Builder // to be read once the agent has ended
	status  chan int
}

// manage runs an agent as a service manager does.
func manage(t *testing.T, environ []string, args ...string) *managed {
	m := &managed{
		Manager: sdnotifytest.New(t), t: t,
		signals: make(chan os.Signal, 1), stderr: &strings.Builder{}, status: make(chan int, 1),
	}
	environ = append(environ, m.Environ()...)
	go func() {
		m.status <- run(context.Background(), m.signals, append(args, "--ops-listen", "127.0.0.1:0"), environ, m.stderr, m.stderr)
	}()
	return m
}

// stop ends the agent and returns what it has logged.
func (m *managed) stop() string {
	m.t.Helper()
	m.signals <- syscall.SIGTERM
	m.Hears(5*time.Second, "STOPPING=1")
	if status := <-m.status; status != 0 {
		m.t.Errorf("status %d after SIGTERM", status)
	}
	return m.stderr.String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// T14, T15: with a gateway that nothing leads to the agent is ready at once,
// and the watchdog goes on hearing of it.
func TestT15ReadyWithoutAnything(t *testing.T) {
	m := manage(t, []string{"SANDBOX_AGENT_TOKEN=x"}, "run", "--gateway", "https://gateway.invalid:1")
	m.Hears(2*time.Second, "READY=1")
	m.Hears(5*time.Second, "STATUS=0 services; no session")
	for range 10 {
		m.Hears(5*time.Second, "WATCHDOG=1")
	}
	m.stop()
}

func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, "log-level: warn\nservice: [web=1, api=2/readyz]\n")
	m := manage(t, nil, "run", "--config", file)
	m.Hears(2*time.Second, "READY=1")
	m.Hears(5*time.Second, "STATUS=2 services")
	reload := func(content string) {
		t.Helper()
		write(t, file, content)
		m.signals <- syscall.SIGHUP
		m.Hears(5*time.Second, "RELOADING=1")
		m.Hears(5*time.Second, "READY=1")
	}
	reload("log-level: loud\nservice: [web=1]\n") // a fault: nothing changes
	reload("log-level: info\nservice: [web=1]\nsandbox: other\n")
	m.Hears(5*time.Second, "STATUS=1 service:")
	logged := m.stop()
	for _, want := range []string{
		`msg="the configuration was not reloaded" error="log-level: \"loud\" is not one of`,
		`msg="the configuration was reloaded"`,
		`msg="settings that take effect at the next start have changed" settings=[sandbox]`,
	} {
		if !strings.Contains(logged, want) {
			t.Errorf("not logged: %s\n%s", want, logged)
		}
	}
	if strings.Contains(logged, "agent started") {
		t.Errorf("the level of the file has no effect:\n%s", logged)
	}
}
