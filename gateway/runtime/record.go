// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// identity tells a process from every other one that ever had its pid.
type identity struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start_ticks"` // since boot, in clock ticks
	Boot  string `json:"boot_id"`
}

// record is what survives the gateway of a running sandbox.
type record struct {
	identity
	Generation uint64 `json:"generation"`
	// Code is set when the process ended while we watched.
	Code *int `json:"exit_code,omitempty"`
}

// identify reads the identity of a process that runs or is a zombie.
func identify(pid int) (identity, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return identity{}, err
	}
	start, err := startTicks(stat)
	if err != nil {
		return identity{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, err
	}
	return identity{Pid: pid, Start: start, Boot: string(bytes.TrimSpace(boot))}, nil
}

// startTicks takes field 22 from /proc/PID/stat. Field 2 is the name of the
// program in parentheses, which may hold anything, further parentheses too.
func startTicks(stat []byte) (uint64, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const startTime = 22 - 3 // the first field after the name is number 3
	if len(fields) <= startTime {
		return 0, errors.New("/proc/PID/stat: too few fields")
	}
	ticks, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return 0, errors.New("/proc/PID/stat: the start time is not a number")
	}
	return ticks, nil
}

// handles reports whether a process has a handler for sig, or ignores it.
func handles(pid int, sig syscall.Signal) bool {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	return err == nil && signalSets(status)>>(sig-1)&1 == 1
}

// signalSets joins the sets of caught and ignored signals of /proc/PID/status;
// bit 0 is signal 1.
func signalSets(status []byte) (set uint64) {
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name == "SigCgt" || name == "SigIgn" {
			bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err == nil {
				set |= bits
			}
		}
	}
	return set
}

func (f *files) recordPath(id string) string { return filepath.Join(f.sandbox(id), "process") }

func (f *files) logPath(id string) string { return filepath.Join(f.sandbox(id), "log") }

// writeRecord replaces the record; the directory must exist.
func (f *files) writeRecord(id string, rec record) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := writeAtomic(f.recordPath(id), data); err != nil {
		return fmt.Errorf("process record: %w", err)
	}
	return nil
}

// readRecord reports false if there is none.
func (f *files) readRecord(id string) (record, bool, error) {
	data, err := os.ReadFile(f.recordPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("process record: %w", err)
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil || rec.Pid <= 1 {
		return record{}, false, fmt.Errorf("process record %s: %w: is not one of ours", f.recordPath(id), ErrInvalid)
	}
	return rec, true, nil
}

func (f *files) removeRecord(id string) error { return ignoreMissing(os.Remove(f.recordPath(id))) }

// logSize returns the size of the sandbox's output in bytes, 0 if there is none.
func (f *files) logSize(id string) int64 {
	info, err := os.Stat(f.logPath(id))
	if err != nil {
		return 0
	}
	return info.Size()
}
