// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// T21: whoever connects to the local port has the service, byte for byte, and
// the reply after the end of the question.
func TestServiceForward(t *testing.T) {
	f := newFixture(t)
	f.fill()
	for command, named := range map[string]string{"service forward web": "unnamed service of web", "service forward web docs": "service docs of web"} {
		w := f.watching(t, strings.Fields(command)...)
		line := w.line("Forwarding 127.0.0.1:")
		if !strings.Contains(line, " to "+named+", port ") {
			t.Errorf("%s: %q", command, line)
		}
		addr := strings.Fields(line)[1]
		for _, size := range []int{0, 5, 1 << 20} {
			question := bytes.Repeat([]byte{'x'}, size)
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = c.Write(question)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			if got, err := io.ReadAll(c); !bytes.Equal(got, question) || err != nil {
				t.Errorf("%d of %d bytes came back, %v", len(got), size, err)
			}
			_ = c.Close()
		}
		w.end()
		if code := <-w.exit; code != exitDone {
			t.Errorf("interrupted: exit %d: %s", code, w.errs)
		}
	}
}

// A service that goes away fails each connection, with words, and not the
// command.
func TestServiceForwardSurvives(t *testing.T) {
	f := newFixture(t)
	f.fill()
	w := f.watching(t, "service", "forward", "web", "-o", "json")
	var said struct{ LocalAddress string }
	var text strings.Builder
	for !strings.Contains(text.String(), "}") {
		text.WriteString(w.line(""))
	}
	if err := json.Unmarshal([]byte(text.String()), &said); err != nil {
		t.Fatalf("%v in %s", err, text.String())
	}
	if r := f.run(t, "service", "delete", "web"); r.code != exitDone {
		t.Fatal(r.err)
	}
	for range 2 {
		c, err := net.Dial("tcp", said.LocalAddress)
		if err != nil {
			continue // the reset was faster than the answer to the dial
		}
		if _, err := io.ReadAll(c); err == nil {
			t.Error("a connection to a service that is gone ends in good order")
		}
		_ = c.Close()
	}
	w.end()
	if code := <-w.exit; code != exitDone || strings.Count(w.errs.String(), "a connection failed: ") != 2 {
		t.Errorf("exit %d, said %q", code, w.errs)
	}
}

// poor is a listener that runs out of descriptors before its first connection.
type poor struct {
	net.Listener
	short atomic.Int32
}

func (p *poor) Accept() (net.Conn, error) {
	if p.short.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return p.Listener.Accept()
}

// Too many connections for this process fail none of those that are open, and
// are said once.
func TestServiceForwardOutOfDescriptors(t *testing.T) {
	f := newFixture(t)
	f.fill()
	var errs bytes.Buffer
	a := f.app(io.Discard, &errs)
	l, err := listenLocal(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	scarce := &poor{Listener: l}
	scarce.short.Store(3)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- a.forward(ctx, nil, scarce, &sandboxv1.ForwardTarget{})
	}()
	for deadline := time.Now().Add(10 * time.Second); scarce.short.Load() >= 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it does not accept again")
		}
	}
	cancel()
	if err := <-ended; err != nil || strings.Count(errs.String(), "too many open files") != 1 {
		t.Errorf("%v, said %q", err, errs.String())
	}
}

func TestServiceForwardPort(t *testing.T) {
	f := newFixture(t)
	f.fill()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"web", "--local", port}, exitFailed, "address already in use"},
		{[]string{"web", "--local", "0"}, exitUsage, "--local: port \"0\""},
		{[]string{"web", "none"}, exitNotFound, "none"},
		{[]string{}, exitUsage, "SANDBOX"},
	} {
		r := f.run(t, append([]string{"service", "forward"}, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.err, tt.says) {
			t.Errorf("%v: exit %d, said %q", tt.args, r.code, r.err)
		}
	}
	// A port that is taken is no reason to fail unless it was asked for.
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listenLocal(t.Context(), 0, uint32(n))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestServiceOpen(t *testing.T) {
	f := newFixture(t)
	f.fill()
	const url = "http://default--web--docs.sandbox.localhost:17680/"
	if r := f.run(t, "service", "open", "web", "docs"); r.out != url+"\n" || r.err != "" || f.launched != nil {
		t.Errorf("%+v, launched %v", r, f.launched)
	}
	// Health gates nothing, and is told.
	if r := f.run(t, "service", "open", "api"); r.code != exitDone || !strings.HasPrefix(r.out, "http://default--api.") || !strings.Contains(r.err, "Unresponsive") {
		t.Errorf("%+v", r)
	}
	f.env["BROWSER"] = "firefox"
	if r := f.run(t, "service", "open", "web", "docs", "--browser"); r.code != exitDone || !reflect.DeepEqual(f.launched, [][]string{{"firefox", url}}) {
		t.Errorf("%+v, launched %v", r, f.launched)
	}
	f.launchErr = errors.New("no display")
	if r := f.run(t, "service", "open", "web", "docs", "--browser"); r.code != exitFailed || r.out != url+"\n" || !strings.Contains(r.err, "BROWSER") {
		t.Errorf("%+v", r)
	}
}

// A browser that does not end at once goes on when the command has ended; one
// that fails says so.
func TestLaunch(t *testing.T) {
	if err := launch(t.Context(), "sh", "-c", "exit 3"); err == nil {
		t.Error("a failure was not noticed")
	}
	if err := launch(t.Context(), "/nowhere/browser"); err == nil {
		t.Error("a program that is not there was not noticed")
	}
	fifo, said := filepath.Join(t.TempDir(), "fifo"), filepath.Join(t.TempDir(), "said")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := launch(ctx, "sh", "-c", `read url < "$1" && echo "$url" > "$2.new" && mv "$2.new" "$2"`, "-", fifo, said); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fifo, []byte("alive\n"), 0); err != nil { // waits for the program
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if b, err := os.ReadFile(said); err == nil && string(b) == "alive\n" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it did not go on")
		}
		runtime.Gosched()
	}
}

// What a gateway calls a URL is not run.
func TestBrowseOpensWebPagesOnly(t *testing.T) {
	f := newFixture(t)
	a := f.app(io.Discard, io.Discard)
	for _, bad := range []string{"", "javascript:alert(1)", "file:///etc/passwd", "-version", "http:///x", "https:x"} {
		if err := a.browse(t.Context(), bad); err == nil || f.launched != nil {
			t.Errorf("%q: %v, launched %v", bad, err, f.launched)
		}
	}
}
