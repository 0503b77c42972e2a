// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"time"
)

// DefaultGrace is how long a command has between SIGTERM and SIGKILL.
const DefaultGrace = 5 * time.Second

// Exit codes of a command that never ran, as a shell has them.
const (
	CodeCannotRun = 126 // found, but not executable, or its directory is missing
	CodeNotFound  = 127
)

// groupPoll is how often the group of an ended leader is looked at: the kernel
// tells nobody when a process group becomes empty.
const groupPoll = 20 * time.Millisecond

// Config says what to run. Argv is required.
type Config struct {
	Argv []string // program and arguments; a name without slash is looked up in Env's PATH
	Env  []string // whole environment, "NAME=value"; nil: this process's
	Dir  string   // working directory; empty: this process's

	Stdout, Stderr *os.File // inherited as they are; nil: /dev/null

	Grace   time.Duration    // between SIGTERM and SIGKILL; 0: DefaultGrace
	Signals <-chan os.Signal // forwarded to the leader; nil: none. See Forwarded
	Reaper  *Reaper          // who waits for children, when this is process 1; nil: Run does
	Logger  *slog.Logger     // required
}

// Forwarded returns the signals that Run passes on from Config.Signals. Others
// are ignored.
func Forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	}
}

// Run runs the command and returns when it and its process group have ended:
// its exit code 0..255, or 128 + the number of the signal that ended it. The
// end of ctx is the request to end it and no error.
//
// An error means that it did not run or that its end could not be observed:
// a *StartError comes with 127 (not found) or 126 (cannot be run), anything
// else with -1.
func Run(ctx context.Context, cfg Config) (int, error) {
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	// PR_SET_PDEATHSIG fires when the forking thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	c, err := start(cfg)
	if err != nil {
		var se *StartError
		if errors.As(err, &se) {
			return se.Code, err
		}
		return -1, err
	}
	defer c.release()
	cfg.Logger.Info("command started", "pid", c.pid)
	status, err := c.supervise(ctx, cfg)
	if err != nil {
		return -1, fmt.Errorf("wait for the command: %w", err)
	}
	code := exitCode(status)
	cfg.Logger.Info("command ended", "pid", c.pid, "code", code)
	return code, nil
}

// supervise is the loop around one started command.
func (c *child) supervise(ctx context.Context, cfg Config) (syscall.WaitStatus, error) {
	signals, stop := cfg.Signals, ctx.Done()
	var deadline <-chan time.Time // of the grace; nil until asked to end
	for {
		select {
		case res := <-c.exited:
			c.endGroup(deadline)
			return res.status, res.err
		case sig, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			c.forward(sig, cfg.Logger)
		case <-stop:
			stop = nil
			timer := time.NewTimer(cfg.Grace)
			defer timer.Stop()
			deadline = timer.C
			c.signalGroup(syscall.SIGTERM)
		case <-deadline:
			c.signalGroup(syscall.SIGKILL)
			res := <-c.exited
			c.endGroup(nil)
			return res.status, res.err
		}
	}
}

// endGroup ends what the leader left behind in its group: at once without a
// deadline, otherwise when that comes. The leader's pid is not given out again
// while its group has a member.
func (c *child) endGroup(deadline <-chan time.Time) {
	if deadline != nil && c.groupEnds(deadline) {
		return
	}
	c.signalGroup(syscall.SIGKILL)
}

// groupEnds waits until the group is empty; it reports false if the deadline
// came first.
func (c *child) groupEnds(deadline <-chan time.Time) bool {
	tick := time.NewTicker(groupPoll)
	defer tick.Stop()
	for c.signalGroup(0) {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func (c *child) forward(sig os.Signal, logger *slog.Logger) {
	for _, known := range Forwarded() {
		if sig == known {
			if err := c.signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				logger.Warn("signal was not forwarded", "signal", sig.String(), "error", err)
			}
			return
		}
	}
}

// exitCode maps a wait status to 0..255 or 128 + signal.
func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
