// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Reaper is the one who waits for every child of process 1: for the commands
// that were started with it, and for the orphans that the kernel hands to
// process 1. It is safe for concurrent use. The package comment says what it
// asks of the rest of the process.
type Reaper struct {
	logger *slog.Logger

	// mu is held over fork + registration, over a sweep of waits, and while a
	// signal is sent.
	mu      sync.Mutex
	owned   map[int]chan<- result // started with us and not yet waited for
	orphans uint64
}

// NewReaper returns a Reaper that waits for nobody until Run.
func NewReaper(logger *slog.Logger) *Reaper {
	return &Reaper{logger: logger, owned: make(map[int]chan<- result)}
}

// Run reaps until ctx ends, and returns nil then. Commands that were started
// before Run get their status once it runs.
func (r *Reaper) Run(ctx context.Context) error {
	// Signals that arrive while one is pending merge; a sweep takes all.
	wake := make(chan os.Signal, 1)
	signal.Notify(wake, syscall.SIGCHLD)
	defer signal.Stop(wake)
	for {
		if n := r.sweep(); n > 0 {
			r.logger.Debug("orphans reaped", "count", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
	}
}

// Orphans returns how many processes were reaped that nobody here had started.
func (r *Reaper) Orphans() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans
}

// sweep waits for every child that has ended, and returns how many were
// orphans.
func (r *Reaper) sweep() (orphans int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 { // ECHILD: no children; 0: none has ended
			r.orphans += uint64(orphans)
			return orphans
		}
		if ch, ok := r.owned[pid]; ok {
			delete(r.owned, pid)
			ch <- result{status: ws}
			continue
		}
		orphans++
	}
}

// start forks path. A nil Reaper makes the child its own waiter.
func (r *Reaper) start(path string, argv []string, attr *os.ProcAttr) (*child, error) {
	exited := make(chan result, 1)
	if r == nil {
		p, err := os.StartProcess(path, argv, attr)
		if err != nil {
			return nil, err
		}
		go func() {
			state, err := p.Wait()
			if err != nil {
				exited <- result{err: err}
				return
			}
			ws, _ := state.Sys().(syscall.WaitStatus)
			exited <- result{status: ws}
		}()
		return &child{pid: p.Pid, process: p, exited: exited}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := os.StartProcess(path, argv, attr)
	if err != nil {
		return nil, err
	}
	r.owned[p.Pid] = exited
	return &child{pid: p.Pid, process: p, reaper: r, exited: exited}, nil
}

// signal sends sig to the leader; os.ErrProcessDone if it has been waited for.
func (c *child) signal(sig os.Signal) error {
	if r := c.reaper; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, ok := r.owned[c.pid]; !ok {
			return os.ErrProcessDone
		}
	}
	return c.process.Signal(sig)
}

// signalGroup sends sig to every member of the command's group and reports
// whether there was one.
func (c *child) signalGroup(sig syscall.Signal) bool {
	err := syscall.Kill(-c.pid, sig)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// release gives up the handle of a child that the Reaper has waited for.
func (c *child) release() {
	if c.reaper != nil {
		// Only frees the descriptor; the status is taken.
		_ = c.process.Release()
	}
}
