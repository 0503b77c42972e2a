// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// poll is how often a state of the kernel is looked at.
const poll = 5 * time.Millisecond

// await looks until f says yes.
func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); !f(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// Pause stops a process as SIGSTOP does, and returns once all of it stands
// still. Resume ends that.
func Pause(t testing.TB, pid int) {
	t.Helper()
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGCONT) })
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stop: %v", err)
	}
	await(t, "a process to stop", func() bool { return state(pid) == 'T' })
}

// Resume ends Pause.
func Resume(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatalf("continue: %v", err)
	}
}

// state is the kernel's letter for the state of a process; 0 if it is gone.
func state(pid int) byte {
	if fields := stat(pid); len(fields) > 0 {
		return fields[0][0]
	}
	return 0
}

// stat returns what the kernel says of a process, from its state on; nothing if
// it is gone.
func stat(pid int) [][]byte {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := bytes.Cut(text, []byte(") "))
	return bytes.Fields(after)
}

// Exhaust leaves a process without a free descriptor: it keeps those that are
// open and gets no other. The returned function ends that.
func Exhaust(t testing.TB, pid int) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatalf("prlimit: %v", err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}, nil); err != nil {
		t.Fatalf("prlimit: %v", err)
	}
	restore = func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil && err != unix.ESRCH {
			t.Errorf("prlimit: %v", err)
		}
	}
	t.Cleanup(restore)
	return restore
}

// Descriptors returns how many descriptors a process has open.
func Descriptors(t testing.TB, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Resident returns how many bytes of a process are in memory.
func Resident(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		t.Fatalf("memory of a process: %q, %v", text, err)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// Descendants returns the process ids of all that descend from a process,
// without itself.
func Descendants(pid int) []int {
	children := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		child, _ := strconv.Atoi(filepath.Base(dir))
		if fields := stat(child); len(fields) > 1 {
			parent, _ := strconv.Atoi(string(fields[1]))
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return all
}
