// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestLocalAdoptAfterKill(t *testing.T) {
	w := newWorld(t)
	w.killedGateway(t, map[string][]string{"alive": {"serve"}, "dead": {"serve"}, "later": {"serve"}, "old": {"serve"}})
	for _, id := range []string{"alive", "dead", "later", "old"} {
		w.line(t, id)
	}
	namespace := map[string]string{}
	for _, id := range []string{"alive", "later", "old"} {
		namespace[id] = pidNamespace(t, w.record(t, id).Pid)
	}
	kill := func(id string) {
		t.Helper()
		if err := unix.Kill(w.record(t, id).Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	kill("dead")
	eventually(t, "the dead sandbox has ended", func() bool {
		fd, err := holdProcess(w.record(t, "dead").identity)
		if fd != nil {
			fd.Close()
		}
		return err == nil && fd == nil
	})

	specs := []Spec{spec("alive"), spec("dead"), spec("later"), spec("old"), spec("never")}
	specs[3].Generation = 2 // was stopped and started while it ran
	if err := w.driver.Adopt(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Exit{{"dead", 1, CodeUnknown}, {"old", 2, CodeUnknown}, {"never", 1, CodeUnknown}} {
		if e := w.exit(t); e != want {
			t.Errorf("exit %+v, want %+v", e, want)
		}
	}
	w.noExit(t)
	if n := members(t, namespace["old"]); n != 0 {
		t.Errorf("%d processes of another generation are left", n)
	}
	if err := w.driver.Start(t.Context(), spec("alive", "serve")); !errors.Is(err, ErrRunning) {
		t.Errorf("start of an adopted sandbox: %v, want ErrRunning", err)
	}

	kill("later") // after the adoption: watched, but nobody gets the code
	if e := w.exit(t); e != (Exit{"later", 1, CodeUnknown}) {
		t.Errorf("exit %+v", e)
	}
	if err := w.driver.Delete(t.Context(), "alive"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() bool {
		return members(t, namespace["alive"])+members(t, namespace["later"]) == 0
	})
	w.noExit(t)
}

// Stop needs no Adopt: a sandbox that was being stopped when the gateway died is
// in no list of those that should run.
func TestLocalStopWithoutAdopt(t *testing.T) {
	w := newWorld(t)
	w.killedGateway(t, map[string][]string{"alpha": {"serve"}})
	w.line(t, "alpha")
	ns := pidNamespace(t, w.record(t, "alpha").Pid)
	if err := w.driver.Stop(t.Context(), "alpha"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left", func() bool { return members(t, ns) == 0 })
	if _, ok, err := w.driver.files.readRecord("alpha"); ok || err != nil {
		t.Errorf("record: found %v, error %v", ok, err)
	}
}

func TestLocalReusedPidIsNotAdopted(t *testing.T) {
	w := newWorld(t)
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Process.Kill(); err != nil {
			t.Errorf("the other process was ended: %v", err)
		}
		if state, err := other.Process.Wait(); err != nil || state.Sys().(interface{ Signal() unix.Signal }).Signal() != unix.SIGKILL {
			t.Errorf("the other process ended by itself: %v, %v", state, err)
		}
	}()
	id, err := identify(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	started, booted, none := id, id, id
	started.Start--
	booted.Boot = "another"
	none.Pid = 1<<22 + 1 // above any pid
	for name, id := range map[string]identity{"start": started, "boot": booted, "none": none} {
		if err := w.driver.files.create(name, ""); err != nil {
			t.Fatal(err)
		}
		if err := w.driver.files.writeRecord(name, record{identity: id, Generation: 1}); err != nil {
			t.Fatal(err)
		}
		if err := w.driver.Adopt(t.Context(), []Spec{spec(name)}); err != nil {
			t.Fatal(err)
		}
		if e := w.exit(t); e != (Exit{name, 1, CodeUnknown}) {
			t.Errorf("%s: exit %+v", name, e)
		}
		if err := w.driver.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

// A gateway that died after the exit and before it could tell.
func TestLocalRecordedCodeIsAdopted(t *testing.T) {
	w := newWorld(t)
	w.start(t, spec("alpha", "exit", "7"))
	w.exit(t)
	if err := w.driver.Close(); err != nil {
		t.Fatal(err)
	}
	w.driver = w.open(t)
	next := spec("alpha")
	next.Generation = 2
	if err := w.driver.Adopt(t.Context(), []Spec{spec("alpha"), next}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Exit{{"alpha", 1, 7}, {"alpha", 2, CodeUnknown}} {
		if e := w.exit(t); e != want {
			t.Errorf("exit %+v, want %+v", e, want)
		}
	}
}

func TestLocalCloseLeavesSandboxesRunning(t *testing.T) {
	w := newWorld(t)
	w.start(t, spec("alpha", "serve"))
	w.line(t, "alpha")
	first := w.driver
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pid := w.record(t, "alpha").Pid
	defer reap(pid) // this process is still its parent
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("the sandbox ended with Close: %v", err)
	}
	for name, err := range map[string]error{
		"start": first.Start(t.Context(), spec("beta", "serve")), "stop": first.Stop(t.Context(), "alpha"),
		"adopt": first.Adopt(t.Context(), []Spec{spec("alpha")}),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	w.driver = w.open(t)
	if err := w.driver.Adopt(t.Context(), []Spec{spec("alpha")}); err != nil {
		t.Fatal(err)
	}
	w.noExit(t)
	if err := w.driver.Delete(t.Context(), "alpha"); err != nil {
		t.Fatal(err)
	}
}

func TestLocalDamagedRecordIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, content := range map[string]string{"empty": "", "text": "pid 1", "init": `{"pid":1}`, "negative": `{"pid":-5}`} {
		if err := w.driver.files.create(name, ""); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.driver.files.recordPath(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"adopt": w.driver.Adopt(t.Context(), []Spec{spec(name)}), "stop": w.driver.Stop(t.Context(), name),
		} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s with a record %q: %v, want ErrInvalid", what, content, err)
			}
		}
		if err := os.Remove(w.driver.files.recordPath(name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLocalLogIsTruncatedAtStart(t *testing.T) {
	w := newWorld(t)
	w.start(t, spec("alpha", "no such thing"))
	w.exit(t)
	w.start(t, spec("alpha", "no such thing"))
	w.exit(t)
	data, err := os.ReadFile(filepath.Join(w.cfg.Dir, "alpha", "log"))
	// A binary built for coverage adds a line of its own.
	if err != nil || !bytes.HasPrefix(data, []byte("unknown command\n")) || bytes.Count(data, []byte("unknown")) != 1 {
		t.Errorf("log %q, error %v", data, err)
	}
	if n := w.driver.files.logSize("alpha"); n != int64(len(data)) {
		t.Errorf("log size %d, want %d", n, len(data))
	}
}

// One sandbox that cannot be adopted keeps no other from being watched.
func TestAdoptGoesOnAfterAFailure(t *testing.T) {
	var exits []string
	d := NewLocal(Config{Dir: t.TempDir(), Logger: testkit.Logger(t), OnExit: func(e Exit) { exits = append(exits, e.ID) }})
	defer d.Close()
	err := d.Adopt(t.Context(), []Spec{{ID: "first", Generation: 1}, {ID: "../bad", Generation: 1}, {ID: "last", Generation: 1}})
	if !errors.Is(err, ErrInvalid) || !slices.Equal(exits, []string{"first", "last"}) {
		t.Errorf("told the ends of %q, %v", exits, err)
	}
}
