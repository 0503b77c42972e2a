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
