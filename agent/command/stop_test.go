// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestContextEndsTheCommand(t *testing.T) {
	cfg := shell(t, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done")
	out := output(t, &cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := background(ctx, cfg)
	line(t, out)
	cancel()
	if code := await(t, done); code != 3 {
		t.Fatalf("code %d, want 3: the command's own answer to SIGTERM", code)
	}
}

func TestContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := await(t, background(ctx, shell(t, "while :; do sleep 0.01; done"))); code != 143 {
		t.Fatalf("code %d, want 143", code)
	}
}

func TestGraceThenKill(t *testing.T) {
	cfg := shell(t, "trap '' TERM; sh -c 'echo $$; while :; do sleep 0.01; done' & wait; wait")
	cfg.Grace = 50 * time.Millisecond
	out := output(t, &cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := background(ctx, cfg)
	member := line(t, out)
	start := time.Now()
	cancel()
	if code := await(t, done); code != 137 {
		t.Fatalf("code %d, want 137", code)
	}
	if d := time.Since(start); d < cfg.Grace {
		t.Fatalf("killed after %v, before the grace of %v", d, cfg.Grace)
	}
	gone(t, member)
}

// A wrapper that dies of SIGTERM at once does not cost the server behind it its
// grace.
func TestGraceOutlivesTheLeader(t *testing.T) {
	cfg := shell(t, `sh -c 'trap "sleep 0.1; echo drained; exit 0" TERM; echo ready; while :; do sleep 0.01; done' & wait`)
	out := output(t, &cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := background(ctx, cfg)
	line(t, out)
	cancel()
	if code := await(t, done); code != 143 {
		t.Fatalf("code %d, want 143", code)
	}
	if got := line(t, out); got != "drained" {
		t.Fatalf("output %q", got)
	}
}

func TestGraceOfMembersIsBounded(t *testing.T) {
	cfg := shell(t, `sh -c 'trap "" TERM; echo $$; while :; do sleep 0.01; done' & wait`)
	cfg.Grace = 50 * time.Millisecond
	out := output(t, &cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := background(ctx, cfg)
	member := line(t, out)
	cancel()
	if code := await(t, done); code != 143 {
		t.Fatalf("code %d, want 143", code)
	}
	gone(t, member)
}

func TestLeftoversAreKilled(t *testing.T) {
	cfg := shell(t, "sh -c 'while :; do sleep 0.01; done' & echo $!; exit 5")
	out := output(t, &cfg)
	done := background(t.Context(), cfg)
	member := line(t, out)
	if code := await(t, done); code != 5 {
		t.Fatalf("code %d, want 5", code)
	}
	gone(t, member)
}

func TestOwnProcessGroup(t *testing.T) {
	cfg := shell(t, "echo $$; cut -d' ' -f5 /proc/$$/stat")
	out := output(t, &cfg)
	done := background(t.Context(), cfg)
	if pid, group := line(t, out), line(t, out); pid != group || strings.TrimSpace(pid) == "" {
		t.Fatalf("pid %q, process group %q", pid, group)
	}
	await(t, done)
}
