// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sdnotify

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
)

func TestPulse(t *testing.T) {
	conn := listen(t, t.TempDir()+"/notify")
	n, err := New(env(map[string]string{"NOTIFY_SOCKET": conn.LocalAddr().String(), "WATCHDOG_USEC": "20000"}), 1)
	if err != nil {
		t.Fatal(err)
	}
	var alive atomic.Bool
	alive.Store(true)
	var status atomic.Value
	status.Store("fine")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, Pulse{Alive: alive.Load, Status: func() string { return status.Load().(string) }, Failed: func(err error) { t.Error(err) }})
	}()
	if got := receive(t, conn); got != "WATCHDOG=1\nSTATUS=fine" {
		t.Fatalf("the first message is %q", got)
	}
	if got := receive(t, conn); got != "WATCHDOG=1" {
		t.Fatalf("the second message is %q", got)
	}
	// A daemon whose loops stand still sends no more pings, but still its status.
	alive.Store(false)
	status.Store("stuck")
	for got := receive(t, conn); got != "STATUS=stuck"; got = receive(t, conn) {
		if got != "WATCHDOG=1" && !strings.HasSuffix(got, "STATUS=stuck") {
			t.Fatalf("unexpected message %q", got)
		}
		if strings.HasSuffix(got, "STATUS=stuck") {
			break // a ping that was under way
		}
	}
	cancel()
	<-done
}

// A service manager that is away is told of once, and hears the status when it
// is back.
func TestPulseWithoutListener(t *testing.T) {
	path := t.TempDir() + "/notify"
	n, err := New(env(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000"}), 1)
	if err != nil {
		t.Fatal(err)
	}
	var asked, failed atomic.Int64
	again := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, Pulse{
			Alive: func() bool { return true },
			Status: func() string {
				if asked.Add(1) == 3 {
					close(again)
				}
				return "fine"
			},
			Failed: func(error) { failed.Add(1) },
		})
	}()
	<-again
	conn := listen(t, path)
	if got := receive(t, conn); got != "WATCHDOG=1\nSTATUS=fine" {
		t.Errorf("the first message that arrives is %q", got)
	}
	cancel()
	<-done
	if n := failed.Load(); n != 1 {
		t.Errorf("told of %d failures, want one", n)
	}
}
