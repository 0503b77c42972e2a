// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot reads the boot-time clock.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // the clock has been there since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}

// watchClock calls f whenever the wall clock was set, which includes the end of
// a suspension of the machine, until ctx ends. It costs no wake-up otherwise.
func watchClock(ctx context.Context, f func()) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	timer := os.NewFile(uintptr(fd), "clock")
	defer timer.Close()
	defer context.AfterFunc(ctx, func() { timer.SetReadDeadline(time.Unix(1, 0)) })()
	// A timer that never fires (in 2262), but is cancelled when the clock is set.
	never := unix.ItimerSpec{Value: unix.NsecToTimespec(math.MaxInt64)}
	var buf [8]byte
	for {
		// Both calls are cancelled by a clock that was set since the one before.
		err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
		if err != nil && !errors.Is(err, unix.ECANCELED) {
			return os.NewSyscallError("timerfd_settime", err)
		}
		if err == nil {
			_, err = timer.Read(buf[:])
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, unix.ECANCELED):
			return err
		}
		f()
	}
}
