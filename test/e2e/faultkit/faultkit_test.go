// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// echo answers what it reads.
func echo(t *testing.T, l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// says sends a line and reports whether the answer comes in time.
func says(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	return hears(t, c, within)
}

func hears(t *testing.T, c net.Conn, within time.Duration) bool {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(within))
	_, err := io.ReadFull(c, make([]byte, 5))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

// Two namespaces have the same port each to itself, and a link loses packets
// of the direction that it is told to lose, and no others.
func TestNamespacesAndLinks(t *testing.T) {
	t.Parallel()
	a, b := NewNamespace(t), NewNamespace(t)
	for _, n := range []*Namespace{a, b} {
		l, err := n.Listen("tcp", "127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		echo(t, l)
	}
	link := a.Connect(t)
	l, err := net.Listen("tcp", link.Outside+":0")
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l)
	for _, d := range []Direction{Out, In, Both} {
		c, err := a.Dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if !says(t, c, 5*time.Second) {
			t.Fatalf("%v: no answer over a good link", d)
		}
		link.Drop(t, d)
		if says(t, c, 300*time.Millisecond) {
			t.Errorf("%v: an answer over a dead link", d)
		}
		if lost := link.Restore(t); lost == 0 {
			t.Errorf("%v: nothing was lost", d)
		}
		if !hears(t, c, 10*time.Second) {
			t.Errorf("%v: the link does not heal", d)
		}
		c.Close()
	}
}

// What is held back comes later and whole, a delay is a delay, a cut is a cut.
func TestProxy(t *testing.T) {
	t.Parallel()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	target := listen()
	echo(t, target)
	p := NewProxy(t, listen(), func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", target.Addr().String())
	})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := dial()
	for _, d := range []Direction{Out, In, Both} {
		p.Hold(d)
		if says(t, c, 200*time.Millisecond) {
			t.Errorf("%v: was not held back", d)
		}
		p.Release(d)
		if !hears(t, c, 5*time.Second) {
			t.Errorf("%v: does not flow", d)
		}
	}
	p.Delay(150 * time.Millisecond)
	began := time.Now()
	if !says(t, c, 5*time.Second) || time.Since(began) < 300*time.Millisecond {
		t.Errorf("there and back took %v", time.Since(began))
	}
	p.Delay(0)
	p.Cut()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a cut: %v", err)
	}
	p.Refuse(true)
	refused, err := net.Dial("tcp", p.Addr())
	if err == nil { // the kernel has accepted it
		refused.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = refused.Read(make([]byte, 1))
		refused.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("not refused: %v", err)
	}
	p.Refuse(false)
	if !says(t, dial(), 5*time.Second) || p.Dialled() != 3 {
		t.Errorf("%d connections", p.Dialled())
	}
}

// worker starts a process that does nothing, or all it can.
func worker(t *testing.T, script string) int {
	cmd := exec.Command("sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	pid := worker(t, "sleep 60 & wait")
	await(t, "a child", func() bool { return len(Descendants(pid)) == 1 })
	Pause(t, pid)
	if got := state(pid); got != 'T' {
		t.Errorf("stopped: state %c", got)
	}
	Resume(t, pid)
	await(t, "a process to go on", func() bool { return state(pid) == 'S' })
	if Descriptors(t, pid) < 3 || Resident(t, pid) < 1<<10 {
		t.Errorf("%d descriptors, %d bytes", Descriptors(t, pid), Resident(t, pid))
	}
	Exhaust(t, pid)()
}

func TestFreezer(t *testing.T) {
	t.Parallel()
	g := NewFreezer(t)
	pid := worker(t, "while :; do :; done")
	g.Add(t, pid)
	g.Freeze(t)
	before := cpuTime(t, pid)
	await(t, "a moment", atLeast(200*time.Millisecond))
	if after := cpuTime(t, pid); after != before {
		t.Errorf("a frozen process has used %v", after-before)
	}
	g.Thaw(t)
	await(t, "a thawed process to work", func() bool { return cpuTime(t, pid) > before })
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	g := NewThrottle(t, 5)
	pid := worker(t, "while :; do :; done")
	g.Add(t, pid)
	before, began := cpuTime(t, pid), time.Now()
	await(t, "a second", atLeast(time.Second))
	used, passed := cpuTime(t, pid)-before, time.Since(began)
	if used > passed/10 {
		t.Errorf("used %v in %v", used, passed)
	}
}

// atLeast is for what has to be seen not to happen.
func atLeast(d time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) >= d }
}

// cpuTime is how long a process has run.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	ticks := int64(0)
	fields := stat(pid)
	if len(fields) < 13 {
		t.Fatal("the process is gone")
	}
	for _, i := range []int{11, 12} { // utime, stime, counted from the state
		n := int64(0)
		for _, c := range fields[i] {
			n = n*10 + int64(c-'0')
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
