// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// files is the part of a driver that keeps one directory per sandbox.
type files struct {
	dir string
	// mu keeps a token from being written into a directory that is being removed.
	mu sync.Mutex
}

func (f *files) sandbox(id string) string { return filepath.Join(f.dir, id) }

// create makes the sandbox's directory and sub (may be empty) in it.
func (f *files) create(id, sub string) error {
	return os.MkdirAll(filepath.Join(f.dir, id, sub), 0o700)
}

// writeToken replaces the token file; its directory must exist.
func (f *files) writeToken(path string, token secret.String) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := writeAtomic(path, []byte(token.Reveal())); err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	return nil
}

// remove deletes everything of a sandbox.
func (f *files) remove(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return os.RemoveAll(f.sandbox(id))
}

// writeAtomic replaces path by a file of mode 0600 that is on disk before it
// has that name: a reader, also one after a power cut, finds the old or the new.
func writeAtomic(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(tmp.Name())))
		}
	}()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
