// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// part is one measurement.
type part struct {
	name string
	run  func(*bench) error
}

func parts() []part {
	return []part{
		{"GetService over loopback", getService},
		{"relay beside a plain reverse proxy", relay},
	}
}

// bench is what a part works with.
type bench struct {
	ctx context.Context
	dir string
	bed *kit.Bed
	out io.Writer
}

func (b *bench) printf(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout))
}

// run measures every part whose name contains the first argument.
func run(ctx context.Context, args []string, out io.Writer) int {
	if len(args) == 2 {
		if ok, err := servePlain(args[0], args[1], out); ok {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	filter := strings.Join(args, " ")
	fmt.Fprintf(out, "%s, %s/%s, %d cores, %s\n", time.Now().UTC().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor())
	for _, p := range parts() {
		if !strings.Contains(p.name, filter) {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", p.name)
		if err := measure(ctx, p, out); err != nil {
			fmt.Fprintf(out, "FAILED: %v\n", err)
			return 1
		}
	}
	return 0
}

// measure runs one part against a gateway of its own.
func measure(ctx context.Context, p part, out io.Writer) error {
	dir, err := os.MkdirTemp("", "sandbox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bed, err := kit.New(dir, io.Discard)
	if err != nil {
		return err
	}
	gateway, err := bed.Gateway(ctx)
	if err != nil {
		return err
	}
	defer gateway.Stop()
	return p.run(&bench{ctx, dir, bed, out})
}

// processor returns the model of the first core.
func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "unknown processor"
}
