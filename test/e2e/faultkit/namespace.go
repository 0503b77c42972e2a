// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package faultkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace with its own loopback, which is up. It has
// no name and lives for as long as the test or a process in it does.
type Namespace struct {
	home *os.File // where the test lives
	ns   *os.File
}

// NewNamespace returns a namespace.
func NewNamespace(t testing.TB) *Namespace {
	t.Helper()
	n := &Namespace{}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		made <- n.make()
	}()
	if err := <-made; errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("network namespaces cannot be made (%v): run this as root, on a kernel with CONFIG_NET_NS", err)
	} else if err != nil {
		t.Fatalf("network namespace: %v", err)
	}
	t.Cleanup(func() {
		n.ns.Close()
		n.home.Close()
	})
	if _, err := n.Command("ip", "link", "set", "lo", "up"); err != nil {
		t.Fatal(err)
	}
	return n
}

// make leaves its thread in the new namespace.
func (n *Namespace) make() (err error) {
	const here = "/proc/thread-self/ns/net"
	if n.home, err = os.Open(here); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	n.ns, err = os.Open(here)
	return errors.Join(err, unix.Setns(int(n.home.Fd()), unix.CLONE_NEWNET))
}

// Do runs f in the namespace: sockets that it opens and processes that it
// starts are there, and stay there. f must not wait for goroutines that do such
// things.
func (n *Namespace) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- os.NewSyscallError("setns", err)
			return
		}
		err := f()
		if unix.Setns(int(n.home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with this goroutine
		}
		done <- err
	}()
	return <-done
}

// Listen listens on a literal address of the namespace.
func (n *Namespace) Listen(network, address string) (l net.Listener, err error) {
	err = n.Do(func() (err error) {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// Dial connects to a literal address of the namespace.
func (n *Namespace) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = n.Do(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// HTTP returns a client whose connections begin in the namespace, and are used
// once.
func (n *Namespace) HTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
}

// Command runs a command in the namespace and returns what it printed.
func (n *Namespace) Command(name string, args ...string) (string, error) {
	return n.feed("", name, args...)
}

// feed is Command with something to read.
func (n *Namespace) feed(stdin, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	// What waits for the command may run in any thread.
	err := n.Do(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

// path names a descriptor of this process for others.
func path(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }
