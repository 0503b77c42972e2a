// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout))
}

// stage is what the two demonstrations share.
type stage struct {
	ctx   context.Context
	out   io.Writer
	dir   string
	bed   *kit.Bed
	began time.Time
}

func run(ctx context.Context, args []string, out io.Writer) int {
	dir, err := os.MkdirTemp("", "sandbox-demo-")
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	defer os.RemoveAll(dir)
	s := &stage{ctx: ctx, out: out, dir: dir, began: time.Now()}
	play := s.servers
	if len(args) == 1 && args[0] == "codex" {
		play = s.codex
	}
	if err := s.withGateway(play); err != nil {
		fmt.Fprintf(out, "\nFAILED after %v: %v\n", time.Since(s.began).Round(time.Millisecond), err)
		s.logs()
		return 1
	}
	fmt.Fprintf(out, "\nAll states were seen, in %v.\n", time.Since(s.began).Round(time.Second))
	return 0
}

// withGateway runs play against a gateway of its own, and leaves nothing
// behind.
func (s *stage) withGateway(play func() error) (err error) {
	log, err := os.Create(filepath.Join(s.dir, "gateway.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	if s.bed, err = kit.New(s.dir, log); err != nil {
		return err
	}
	gateway, err := s.bed.Gateway(s.ctx)
	if err != nil {
		return err
	}
	defer func() {
		// Sandboxes outlive their gateway: delete them first.
		for _, name := range s.sandboxes() {
			s.bed.CLI(context.WithoutCancel(s.ctx), "sandbox", "delete", name)
		}
		if code, stopErr := gateway.Stop(); err == nil && (stopErr != nil || code != 0) {
			err = fmt.Errorf("the gateway stopped with %d, %v", code, stopErr)
		}
	}()
	if err := s.show("gateway", "status"); err != nil {
		return err
	}
	return play()
}

func (s *stage) sandboxes() []string {
	r := s.bed.CLI(context.WithoutCancel(s.ctx), "sandbox", "list")
	var names []string
	for i, line := range strings.Split(strings.TrimSpace(r.Stdout), "\n") {
		if name, _, ok := strings.Cut(line, " "); ok && i > 0 && r.Code == 0 {
			names = append(names, name)
		}
	}
	return names
}

// say prints a heading.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.out, "\n# [%4.1fs] %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// show runs the CLI as a user would and prints what it prints.
func (s *stage) show(args ...string) error {
	fmt.Fprintf(s.out, "$ sandboxctl %s\n", strings.Join(args, " "))
	r := s.bed.CLI(s.ctx, args...)
	fmt.Fprint(s.out, r.Stdout, r.Stderr)
	if r.Code != 0 {
		return fmt.Errorf("sandboxctl %s: exit status %d", strings.Join(args, " "), r.Code)
	}
	return nil
}

// expect waits for a health and shows it.
func (s *stage) expect(limit time.Duration, sandbox string, want ...string) error {
	if err := s.bed.UntilHealth(s.ctx, limit, sandbox, "", want...); err != nil {
		return err
	}
	s.say("%s is %s", sandbox, strings.Join(want, " or "))
	return s.show("service", "list")
}

// logs prints what may explain a failure.
func (s *stage) logs() {
	files, _ := filepath.Glob(filepath.Join(s.dir, "state", "sandboxes", "*", "log"))
	for _, name := range append(files, filepath.Join(s.dir, "gateway.log")) {
		b, _ := os.ReadFile(name)
		fmt.Fprintf(s.out, "\n--- %s\n%.8000q\n", filepath.Base(name), b)
	}
}
