// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

const statTail = " S 1 100 100 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 987654 1 2 3"

func TestStartTicks(t *testing.T) {
	for _, tc := range []struct {
		stat string
		want uint64
		ok   bool
	}{
		{"100 (sh)" + statTail, 987654, true},
		{"100 (a b) S (c))" + statTail, 987654, true},
		{"100 ())\n" + statTail, 987654, true},
		{"100 (" + strings.Repeat(") 7 ", 40) + ")" + statTail, 987654, true},
		{"100 (sh) S 1 2", 0, false},
		{"", 0, false},
		{strings.Replace("100 (sh)"+statTail, "987654", "x", 1), 0, false},
		{strings.Replace("100 (sh)"+statTail, "987654", "-1", 1), 0, false},
	} {
		got, err := startTicks([]byte(tc.stat))
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("startTicks(%q) = %d, %v", tc.stat, got, err)
		}
	}
}

func TestIdentify(t *testing.T) {
	a, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	b, err := identify(os.Getpid())
	if err != nil || a != b || a.Start == 0 || len(a.Boot) != 36 {
		t.Errorf("identify: %+v, %+v, %v", a, b, err)
	}
	if p, err := identify(os.Getppid()); err != nil || p == a {
		t.Errorf("the parent is %+v, %v", p, err)
	}
	data, err := json.Marshal(record{identity: a, Generation: 3})
	if err != nil {
		t.Fatal(err)
	}
	var back record
	if err := json.Unmarshal(data, &back); err != nil || back.identity != a || back.Generation != 3 || back.Code != nil {
		t.Errorf("%s came back as %+v, %v", data, back, err)
	}
}

func TestHandles(t *testing.T) {
	for status, want := range map[string]uint64{
		"":                            0,
		"SigBlk:\tffffffffffffffff\n": 0,
		"SigIgn:\t0000000000000001\nSigCgt:\t0000000000004000\n": 0x4001,
		"SigCgt:\tnonsense\n": 0,
	} {
		if got := signalSets([]byte(status)); got != want {
			t.Errorf("signalSets(%q) = %#x, want %#x", status, got, want)
		}
	}
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGTERM)
	defer signal.Stop(ch)
	if !handles(os.Getpid(), syscall.SIGTERM) || handles(os.Getpid(), syscall.SIGSTOP) || handles(1<<22+1, syscall.SIGTERM) {
		t.Error("handles is wrong about this process, or about none")
	}
}

func FuzzStartTicks(f *testing.F) {
	f.Add([]byte("100 (sh)" + statTail))
	f.Add([]byte("100 (a b) S (c))" + statTail))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		got, err := startTicks(stat)
		if err != nil && got != 0 {
			t.Errorf("%d beside an error", got)
		}
		// Whatever the name holds, what follows the last parenthesis decides.
		if !bytes.ContainsRune(stat, ')') {
			return
		}
		if again, _ := startTicks(append([]byte("7 (x) y)"), stat...)); again != got {
			t.Errorf("a longer name changed %d into %d", got, again)
		}
	})
}

func FuzzReadStatus(f *testing.F) {
	for _, s := range []string{"ready", "", `{"Step":"proc","Errno":1,"Text":"x"}`, `ready{"Step":"exec","Errno":8}`, `{"Step":"order"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		if err := readStatus(said, facts{root: true}); (err == nil) != (string(said) == statusReady) {
			t.Errorf("%q: %v", said, err)
		}
	})
}
