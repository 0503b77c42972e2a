// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childPort, in the environment, makes this test binary the process of
// TestStopped that attempts.
const childPort = "PROBE_CHILD_PORT"

func attemptInChild(port string) {
	n, err := strconv.Atoi(port)
	a := NewHTTP("sandbox-agent/test").Attempt(context.Background(), Target{Port: uint16(n), Path: "/"})
	fmt.Fprintln(os.Stdout, "attempt", a.Outcome, a.Reason, a.Code, err)
}

// TestStopped holds T05 and the first half of T12: a process that is stopped in
// the middle of an attempt hears an answer that has come meanwhile, and holds
// the lack of one against nobody.
func TestStopped(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for _, tt := range []struct {
		name   string
		answer string
		closes bool
		stop   time.Duration
		want   string
	}{
		{"answered", "HTTP/1.1 200 OK\r\n\r\n", false, 1400 * time.Millisecond, "Pass OK 200"},
		{"answered badly", "HTTP/1.1 500 Oh\r\n\r\n", false, 1400 * time.Millisecond, "Fail BadStatus 500"},
		{"not answered", "", false, 1400 * time.Millisecond, "Inconclusive Late 0"},
		{"not answered after a short stop", "", false, 500 * time.Millisecond, "Inconclusive Late 0"},
		{"closed", "", true, 1400 * time.Millisecond, "Inconclusive Late 0"},
		{"half an answer", "HTTP/1.1 200 OK\r\n", true, 1400 * time.Millisecond, "Inconclusive Late 0"},
	} {
		l, port := listen(t, "127.0.0.1")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childPort+"="+portString(port), "GORACE=atexit_sleep_ms=0")
		started := make(chan struct{})
		serve(t, l, func(c *net.TCPConn) {
			readRequest(c)
			<-started
			cmd.Process.Signal(syscall.SIGSTOP)
			waitStopped(cmd.Process.Pid)
			c.Write([]byte(tt.answer))
			if tt.closes {
				c.CloseWrite()
			}
			<-time.After(tt.stop) // the stop is what is tested, not waited for
			cmd.Process.Signal(syscall.SIGCONT)
			waitHangUp(c)
		})
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		wg.Go(func() {
			err := cmd.Wait()
			if err != nil || !strings.Contains(out.String(), "attempt "+tt.want+" <nil>\n") {
				t.Errorf("%s: %v, %s\nwant %s", tt.name, err, out.String(), tt.want)
			}
		})
	}
	wg.Wait()
}

// waitStopped returns when the kernel says that a process is stopped, or gone.
func waitStopped(pid int) {
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if _, after, ok := bytes.Cut(stat, []byte(") ")); err != nil || ok && after[0] == 'T' {
			tick.Stop()
			return
		}
	}
}
