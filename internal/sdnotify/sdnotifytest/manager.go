// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sdnotifytest

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Manager hears what a daemon tells its service manager.
type Manager struct {
	t     *testing.T
	conn  *net.UnixConn
	heard []string // lines that nobody has waited for
}

// New returns a Manager that listens until the test ends.
func New(t *testing.T) *Manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Manager{t: t, conn: conn}
}

// Environ returns what the daemon finds in its environment. Its watchdog is
// impatient: what changes is said within milliseconds.
func (m *Manager) Environ() []string {
	return []string{"NOTIFY_SOCKET=" + m.conn.LocalAddr().String(), "WATCHDOG_USEC=20000"}
}

// Hears waits until a line that nobody has waited for yet begins with what is
// wanted.
func (m *Manager) Hears(limit time.Duration, want string) {
	m.t.Helper()
	buf := make([]byte, 4096)
	if err := m.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		m.t.Fatal(err)
	}
	for {
		if i := slices.IndexFunc(m.heard, func(l string) bool { return strings.HasPrefix(l, want) }); i >= 0 {
			m.heard = slices.Delete(m.heard, i, i+1)
			return
		}
		n, err := m.conn.Read(buf)
		if err != nil {
			m.t.Fatalf("the service manager did not hear %q within %v, but %q", want, limit, slices.Compact(m.heard))
		}
		m.heard = append(m.heard, strings.Split(string(buf[:n]), "\n")...)
	}
}

// Forget drops what was heard until now and nobody has waited for.
func (m *Manager) Forget() { m.heard = nil }
