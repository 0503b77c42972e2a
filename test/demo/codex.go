// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// codex shows the Codex app-server: ready by its /readyz, and responsive
// although it answers 400 to a plain request for /.
func (s *stage) codex() error {
	codex := filepath.Join(kit.Root(), ".tools", "codex", "node_modules", ".bin", "codex")
	if _, err := os.Stat(codex); err != nil {
		return fmt.Errorf("%w: run make demo-codex, which installs it", err)
	}
	home := filepath.Join(s.dir, "codex")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	create := func(name string, check ...string) error {
		args := append([]string{"sandbox", "create", name, "--driver", "local", "--expose", "4500"}, check...)
		args = append(args, "--env", "CODEX_HOME="+home, "--env", "PATH="+os.Getenv("PATH"),
			"--", codex, "app-server", "--listen", "ws://127.0.0.1:4500")
		return s.show(args...)
	}
	s.say("the Codex app-server with its readiness path")
	if err := create("ready", "--expose-readiness-path", "/readyz"); err != nil {
		return err
	}
	s.say("the Codex app-server without: / answers 400, which is an answer")
	if err := create("responsive"); err != nil {
		return err
	}
	for _, name := range []string{"ready", "responsive"} {
		if err := s.expect(60*time.Second, name, "HEALTHY"); err != nil {
			return err
		}
		if err := s.show("service", "get", name); err != nil {
			return err
		}
	}
	return s.check400("responsive")
}

// check400 makes sure that the demonstration shows what it says.
func (s *stage) check400(sandbox string) error {
	r, err := s.bed.Service(s.ctx, sandbox, "")
	if err != nil {
		return err
	}
	if code := r.GetHealth().GetHttpStatusCode(); code != 400 {
		return fmt.Errorf("/ of the app-server answered %d, want 400", code)
	}
	return nil
}
