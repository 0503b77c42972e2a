// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stage is a second stage that has been cloned and waits for its order.
type stage struct {
	pid    int
	order  *os.File // write end; closing it without an order ends the stage
	status *os.File // read end
}

// close may come twice.
func (s *stage) close() {
	_ = s.order.Close()
	_ = s.status.Close()
}

// clone starts the second stage in new namespaces and in a session of its own,
// with its output in log. It outlives this process.
func clone(log *os.File) (_ *stage, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orderR.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orderW.Close())
	}
	defer statusW.Close()
	s := &stage{order: orderW, status: statusR}

	p, err := os.StartProcess("/proc/self/exe", []string{"sandbox-gateway", InitArg}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: []*os.File{null, log, log, orderR, statusW},
		Sys:   namespaces(os.Geteuid(), os.Getegid()),
	})
	if err != nil {
		s.close()
		return nil, unsupported(namespaceFeature(err, machine()), err)
	}
	s.pid = p.Pid
	// We hold it by a pidfd of our own.
	if err := p.Release(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// namespaces are those of a local sandbox. Anyone but root needs a user
// namespace to make the others; root inside is the caller outside.
func namespaces(uid, gid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	return attr
}

// command sends the order and returns when the agent has been executed, or why
// not. The end of ctx makes it fail.
func (s *stage) command(ctx context.Context, o order) error {
	stop := context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		_ = s.order.SetDeadline(past)
		_ = s.status.SetDeadline(past)
	})
	defer stop()
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	// A stage that died early is told by its status, not by the broken pipe.
	if _, err := s.order.Write(data); err != nil && !errors.Is(err, syscall.EPIPE) {
		return errors.Join(err, ctx.Err())
	}
	if err := s.order.Close(); err != nil {
		return err
	}
	const enough = 64 << 10
	said, err := io.ReadAll(io.LimitReader(s.status, enough))
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	return readStatus(said, machine())
}

// readStatus turns what the second stage said into an error.
func readStatus(said []byte, f facts) error {
	rest, ready := bytes.CutPrefix(said, []byte(statusReady))
	if ready && len(rest) == 0 {
		return nil
	}
	var fail failure
	if err := json.Unmarshal(rest, &fail); err != nil || !slices.Contains(steps, fail.Step) {
		return errNoAgent
	}
	var cause error = fail.Errno
	if fail.Errno == 0 {
		cause = errors.New(fail.Text)
	}
	switch hint := stepFeature(fail.Step, f); {
	case fail.Step == stepExec:
		return fmt.Errorf("execute %s: %w", agentName, cause)
	case hint != "":
		return unsupported(hint, cause)
	}
	return fmt.Errorf("second stage, %s: %w", fail.Step, cause)
}
