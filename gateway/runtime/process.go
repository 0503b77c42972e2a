// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// killPatience is how long a killed sandbox may take to be gone; only a process
// stuck in the kernel takes longer.
const killPatience = 10 * time.Second

// handlerPoll is how often to look whether a process handles SIGTERM yet.
const handlerPoll = 10 * time.Millisecond

// process is the first process of a sandbox, held by a pidfd: no signal can
// reach another process that got its pid. When it has ended, the kernel has
// ended all of its PID namespace before.
type process struct {
	id         string
	generation uint64
	identity   identity
	child      bool     // ours to wait for
	fd         *os.File // the pidfd, known to the netpoller
	done       chan struct{}
	code       int // valid once done is closed

	asked bool // to end, by Stop or Delete; guarded by local.mu
}

// openPidfd opens whatever process has this pid, a zombie too.
func openPidfd(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK) // non-blocking: the netpoller takes it
	if err != nil && !errors.Is(err, unix.ESRCH) {
		err = unsupported("pidfd_open with PIDFD_NONBLOCK (Linux 5.10)", err)
	}
	return fd, err
}

// holdChild holds a child that has not been waited for.
func holdChild(spec Spec, pid int) (*process, error) {
	id, err := identify(pid)
	if err != nil {
		return nil, err
	}
	fd, err := openPidfd(pid)
	if err != nil {
		return nil, err
	}
	return &process{
		id: spec.ID, generation: spec.Generation, identity: id, child: true,
		fd: os.NewFile(uintptr(fd), "pidfd"), done: make(chan struct{}),
	}, nil
}

// reap kills a child that has not been waited for, and waits for it.
func reap(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// holdProcess opens the process that has this identity; nil if it has ended.
func holdProcess(id identity) (*os.File, error) {
	fd, err := openPidfd(id.Pid)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// From here on the pid belongs to whatever we hold; look whether it is ours.
	now, err := identify(id.Pid)
	if err != nil || now != id || pidfdEnded(fd) {
		return nil, unix.Close(fd)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// pidfdEnded reports whether the process, with all its threads, has ended.
func pidfdEnded(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1
}

// wait parks the goroutine until the process has ended, and returns its exit
// code; os.ErrClosed if the pidfd was closed meanwhile.
func (p *process) wait() (int, error) {
	raw, err := p.fd.SyscallConn()
	if err != nil {
		return 0, err
	}
	if err := raw.Read(func(fd uintptr) bool { return pidfdEnded(int(fd)) }); err != nil {
		return 0, err
	}
	if !p.child {
		return CodeUnknown, nil
	}
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(p.identity.Pid, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // somebody else waited for it
			return CodeUnknown, nil
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		default:
			return ws.ExitStatus(), nil
		}
	}
}

// signal reports no error for a process that has ended.
func (p *process) signal(sig unix.Signal) error {
	raw, err := p.fd.SyscallConn()
	if err != nil {
		return nil // closed: it has been watched to its end
	}
	var serr error
	if err := raw.Control(func(fd uintptr) { serr = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return nil
	}
	if errors.Is(serr, unix.ESRCH) {
		return nil
	}
	return serr
}

// end asks the process to end, kills it when the grace or ctx is over, and
// returns when it is gone. closing ends the wait with ErrClosed.
func (p *process) end(ctx context.Context, grace time.Duration, closing <-chan struct{}) error {
	if grace > 0 {
		switch gone, err := p.ask(ctx, grace, closing); {
		case err != nil:
			return fmt.Errorf("signal the sandbox: %w", err)
		case gone:
			return nil
		}
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the sandbox: %w", err)
	}
	timer := time.NewTimer(killPatience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-closing:
		return ErrClosed
	case <-timer.C:
		return fmt.Errorf("process %d has been killed and is still there after %v", p.identity.Pid, killPatience)
	}
}

// ask sends SIGTERM once, as soon as the process handles it: process 1 of a PID
// namespace does not get a signal for which it has no handler (yet), and an
// agent that is just being executed has none. It reports whether the process
// ended within the grace and ctx.
func (p *process) ask(ctx context.Context, grace time.Duration, closing <-chan struct{}) (gone bool, err error) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	tick := time.NewTicker(handlerPoll)
	defer tick.Stop()
	poll := tick.C
	for {
		if poll != nil && handles(p.identity.Pid, unix.SIGTERM) {
			poll = nil
			if err := p.signal(unix.SIGTERM); err != nil {
				return false, err
			}
		}
		select {
		case <-p.done:
			return true, nil
		case <-closing:
			return false, ErrClosed
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, nil
		case <-poll:
		}
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
