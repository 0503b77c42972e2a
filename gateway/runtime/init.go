// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// InitArg as the first argument of the gateway's executable means: this is not
// a gateway but the second stage of a local sandbox. A main does, before
// anything else:
//
//	if len(os.Args) > 1 && os.Args[1] == runtime.InitArg {
//		os.Exit(runtime.Init(os.Args[2:]))
//	}
const InitArg = "__sandbox-init"

// Descriptors that the second stage inherits beside the standard three.
const (
	fdOrder  = 3 // one order, as JSON, then the end
	fdStatus = 4 // statusReady just before the exec, or one failure as JSON
)

const statusReady = "ready"

// order tells the second stage what to become. It holds no secret.
type order struct {
	Hostname string
	StateDir string   // to be covered
	Show     []string // directories below it that stay visible, read-only
	Path     string   // of the agent
	Argv     []string
	Env      []string
}

// Steps of the second stage.
const (
	stepOrder       = "order"
	stepHostname    = "hostname"
	stepLoopback    = "loopback"
	stepPropagation = "propagation"
	stepProc        = "proc"
	stepCover       = "cover"
	stepExec        = "exec"
)

var steps = []string{stepOrder, stepHostname, stepLoopback, stepPropagation, stepProc, stepCover, stepExec}

// failure is how the second stage says which step failed.
type failure struct {
	Step  string
	Errno syscall.Errno // 0 if the error is not one of the kernel
	Text  string
}

// Init is the second stage of a local sandbox: process 1 of new namespaces,
// which furnishes them and becomes the agent. It takes no arguments (args is
// what follows InitArg) and returns only if that failed.
func Init(args []string) int {
	status := os.NewFile(fdStatus, "status")
	orders := os.NewFile(fdOrder, "order")
	if len(args) != 0 || status == nil || orders == nil || os.Getpid() != 1 {
		return 2
	}
	unix.CloseOnExec(fdStatus)
	step, err := become(orders, status)
	f := failure{Step: step, Text: err.Error()}
	errors.As(err, &f.Errno)
	if err := json.NewEncoder(status).Encode(f); err != nil {
		return 3
	}
	return 1
}

// become returns only with an error and the step that it happened in.
func become(orders, status *os.File) (string, error) {
	data, err := io.ReadAll(orders)
	if err != nil {
		return stepOrder, err
	}
	if err := orders.Close(); err != nil {
		return stepOrder, err
	}
	// The gateway writes the record before the order: no order means that the
	// gateway died, and that nobody would know of us.
	var o order
	if err := json.Unmarshal(data, &o); err != nil {
		return stepOrder, fmt.Errorf("the order was cut short: %w", err)
	}
	for _, s := range []struct {
		step string
		do   func() error
	}{
		{stepHostname, func() error { return unix.Sethostname([]byte(o.Hostname)) }},
		{stepLoopback, loopbackUp},
		{stepPropagation, func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{stepProc, func() error {
			return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}},
		{stepCover, func() error { return cover(o.StateDir, o.Show) }},
	} {
		if err := s.do(); err != nil {
			return s.step, err
		}
	}
	if _, err := io.WriteString(status, statusReady); err != nil {
		return stepExec, err
	}
	return stepExec, syscall.Exec(o.Path, o.Argv, o.Env)
}

// loopbackUp brings up lo; the kernel gives it 127.0.0.1/8 and ::1/128.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// cover puts an empty read-only tmpfs over dir, in which only the directories of
// show are seen, read-only, at their old places.
func cover(dir string, show []string) error {
	const attrs = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	trees := make([]int, len(show))
	for i, d := range show {
		// A detached copy of the mount, since its place is about to vanish.
		fd, err := unix.OpenTree(unix.AT_FDCWD, d, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attrs}); err != nil {
			return err
		}
		trees[i] = fd
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return err
	}
	for i, d := range show {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, d, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return err
		}
	}
	return unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}
