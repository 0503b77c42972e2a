// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Assignments that Notify is called with most; STATUS= is free text for people.
const (
	Ready     = "READY=1"
	Stopping  = "STOPPING=1"
	Reloading = "RELOADING=1"
	Watchdog  = "WATCHDOG=1"
)

// sendTimeout bounds one message: a service manager that does not read its
// socket must not hold up a drain.
const sendTimeout = time.Second

const maxWatchdog = (1 << 53) * time.Microsecond

// Notifier sends messages to the service manager that started this process.
// The zero Notifier sends nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// New reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID through getenv
// (os.Getenv). pid is this process's id (os.Getpid): a WATCHDOG_PID of another
// process means that the watchdog is not ours. The error names the variable
// that is malformed; the Notifier returned beside it still works, without what
// could not be understood.
func New(getenv func(string) string, pid int) (Notifier, error) {
	n := Notifier{socket: getenv("NOTIFY_SOCKET")}
	if n.socket != "" && !strings.HasPrefix(n.socket, "/") && !strings.HasPrefix(n.socket, "@") {
		n.socket = ""
		return n, fmt.Errorf("NOTIFY_SOCKET: must be an absolute path or begin with @")
	}
	usec := getenv("WATCHDOG_USEC")
	if usec == "" {
		return n, nil
	}
	if owner := getenv("WATCHDOG_PID"); owner != "" {
		p, err := strconv.Atoi(owner)
		if err != nil {
			return n, fmt.Errorf("WATCHDOG_PID: %q is not a process id", owner)
		}
		if p != pid {
			return n, nil
		}
	}
	d, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || d <= 0 || d > int64(maxWatchdog/time.Microsecond) {
		return n, fmt.Errorf("WATCHDOG_USEC: %q is not a positive number of microseconds below 2^53", usec)
	}
	n.watchdog = time.Duration(d) * time.Microsecond
	return n, nil
}

// Enabled reports whether there is a service manager to tell.
func (n Notifier) Enabled() bool { return n.socket != "" }

// Interval returns how often to send Watchdog: half of what the service
// manager tolerates, or 0 if it does not watch this process.
func (n Notifier) Interval() time.Duration { return n.watchdog / 2 }

// Reload runs f between the messages that a reload has begun and has ended. The
// first names the instant, which Type=notify-reload wants.
func (n Notifier) Reload(f func()) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	begun := n.Notify(Reloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
	f()
	return errors.Join(begun, n.Notify(Ready))
}

// Notify sends the assignments ("READY=1", "STATUS=…") as one message. It
// returns nil without a service manager. It never blocks longer than a second.
func (n Notifier) Notify(assignments ...string) error {
	if n.socket == "" || len(assignments) == 0 {
		return nil
	}
	// net takes a leading @ as the abstract name space.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(assignments, "\n"))); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}
