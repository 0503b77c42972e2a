// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	databaseFile = "gateway.db"
	lockFile     = "gateway.lock"
)

// files are the database files of one directory, locked for this process.
type files struct {
	dir  string
	lock *os.File
	// seen holds what each watched path was when it was opened. Inodes are
	// compared, and cannot be reused while SQLite has them open.
	seen map[string]fs.FileInfo
}

// openFiles creates what is missing, tightens what is too open and takes the
// lock. It never changes the mode of a directory that it did not create, since
// that may hold other people's files.
func openFiles(dir string, logger *slog.Logger) (*files, error) {
	if dir == "" {
		return nil, errors.New("state directory: empty path")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return nil, fmt.Errorf("state directory %s: mode %04o lets everybody replace its files: want 0700", dir, mode)
	case mode&0o077 != 0:
		logger.Warn("state directory is open to other users", "dir", dir, "mode", fmt.Sprintf("%04o", mode))
	}
	f := &files{dir: dir, seen: map[string]fs.FileInfo{}}
	if err := f.acquire(); err != nil {
		return nil, err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := private(f.path()+suffix, suffix == ""); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err := f.watch(""); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *files) path() string { return filepath.Join(f.dir, databaseFile) }

// acquire takes the lock of the directory. The kernel drops it when this
// process ends, however it ends.
func (f *files) acquire() error {
	path := filepath.Join(f.dir, lockFile)
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock state directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("%w: %s is locked", ErrInUse, path)
		}
		return fmt.Errorf("lock state directory: flock %s: %w", path, err)
	}
	f.lock = lock
	return lock.Chmod(0o600)
}

// private makes the file at path readable and writable by its owner alone;
// SQLite gives -wal and -shm the mode of the database.
func private(path string, create bool) error {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if !create && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open database file: %w", err)
	}
	return errors.Join(file.Chmod(0o600), file.Close())
}

// watch remembers what a path is now; verify compares against it.
func (f *files) watch(suffix string) error {
	info, err := os.Stat(f.path() + suffix)
	if err != nil {
		return fmt.Errorf("watch database file: %w", err)
	}
	f.seen[f.path()+suffix] = info
	return nil
}

// verify returns ErrReplaced if a path no longer leads to the file that was
// opened. It is for SQLite alone: a nil receiver is content.
func (f *files) verify() error {
	if f == nil {
		return nil
	}
	for path, seen := range f.seen {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrReplaced, err)
		}
		if !os.SameFile(seen, info) {
			return fmt.Errorf("%w: %s", ErrReplaced, path)
		}
	}
	return nil
}

// sync makes the names of new files survive a loss of power.
func (f *files) sync() error {
	d, err := os.Open(f.dir)
	if err != nil {
		return fmt.Errorf("sync state directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close releases the lock. The lock file stays, so that two newcomers can
// never hold locks on different files of the same name.
func (f *files) Close() error {
	if f == nil || f.lock == nil {
		return nil
	}
	return f.lock.Close()
}

// uri is the database as an SQLite URI with these parameters.
func (f *files) uri(parameters ...string) string {
	escape := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")
	return "file:" + escape.Replace(f.path()) + "?" + strings.Join(parameters, "&")
}
