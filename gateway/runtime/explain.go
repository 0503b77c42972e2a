// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// unsupported wraps what a kernel refuses, with the feature's name; other
// errors get the name alone.
func unsupported(feature string, err error) error {
	refusals := []error{syscall.ENOSYS, syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSPC, syscall.EUSERS}
	if slices.ContainsFunc(refusals, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf("local sandbox: %w: %s: %w", ErrUnsupported, feature, err)
	}
	return fmt.Errorf("local sandbox: %s: %w", feature, err)
}

// facts are what the explanation of a refusal depends on.
type facts struct {
	root   bool
	exists func(path string) bool
}

func machine() facts {
	return facts{root: os.Geteuid() == 0, exists: func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}}
}

// namespaceFeature says what probably made the kernel refuse new namespaces.
func namespaceFeature(err error, f facts) string {
	for _, ns := range []struct{ file, option string }{
		{"net", "CONFIG_NET_NS"},
		{"pid", "CONFIG_PID_NS"},
		{"mnt", "CONFIG_NAMESPACES"},
		{"uts", "CONFIG_UTS_NS"},
		{"ipc", "CONFIG_IPC_NS"},
		{"user", "CONFIG_USER_NS"},
	} {
		if (ns.file != "user" || !f.root) && !f.exists("/proc/self/ns/"+ns.file) {
			return "the kernel has no " + ns.file + " namespaces (" + ns.option + ")"
		}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		return "no more namespaces are allowed (sysctl user.max_*_namespaces)"
	case !f.root && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)):
		return "unprivileged user namespaces are refused (sysctl kernel.unprivileged_userns_clone, " +
			"kernel.apparmor_restrict_unprivileged_userns, or a container's seccomp profile)"
	case errors.Is(err, syscall.EPERM):
		return "new namespaces are refused (needs CAP_SYS_ADMIN, or a seccomp profile that allows clone)"
	}
	return "create namespaces"
}

// stepFeature says what a failed step of the second stage needs.
func stepFeature(step string, f facts) string {
	hint := map[string]string{
		stepPropagation: "private mounts",
		stepProc:        "a new /proc (refused where parts of /proc are covered, as in many containers)",
		stepCover:       "hiding the state directory (open_tree, move_mount and mount_setattr: Linux 5.12)",
		stepLoopback:    "the loopback interface of a new network namespace",
		stepHostname:    "the host name of a new UTS namespace",
	}[step]
	if hint != "" && !f.root {
		hint += " in a user namespace (see also sysctl kernel.apparmor_restrict_unprivileged_userns)"
	}
	return hint
}
