// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Process is one process that the Bed has started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts one of the binaries; what it prints goes to the Bed's log.
func (b *Bed) Start(binary string, args ...string) (*Process, error) {
	cmd := exec.Command(filepath.Join(b.Bin, binary), args...)
	return start(cmd, b.Log)
}

func start(cmd *exec.Cmd, log io.Writer) (*Process, error) {
	cmd.Stdout, cmd.Stderr = log, log
	// Not in our process group: an interrupt of the terminal is ours to handle.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() { defer close(p.done); cmd.Wait() }()
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process at once.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end, and returns its exit code.
func (p *Process) Stop() (int, error) {
	if err := p.Signal(syscall.SIGTERM); err != nil && !p.Exited() {
		return -1, fmt.Errorf("stop: %w", err)
	}
	<-p.done
	return p.cmd.ProcessState.ExitCode(), nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }
