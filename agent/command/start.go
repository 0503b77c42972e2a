// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// StartError is returned by Run when the command could not be started.
type StartError struct {
	Code int    // CodeNotFound or CodeCannotRun
	Name string // what was to be run, or the directory to run it in
	Err  error  // why not
}

func (e *StartError) Error() string { return fmt.Sprintf("start command %q: %v", e.Name, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }

// errNotInPath is wrapped by a StartError when no directory of PATH has the
// command.
var errNotInPath = errors.New("not found in PATH")

type result struct {
	status syscall.WaitStatus
	err    error
}

// child is one started command.
type child struct {
	pid     int
	process *os.Process
	reaper  *Reaper
	exited  <-chan result // the one result of waiting for it
}

func start(cfg Config) (*child, error) {
	if len(cfg.Argv) == 0 || cfg.Argv[0] == "" {
		return nil, &StartError{Code: CodeNotFound, Err: errors.New("the command is empty")}
	}
	env := cfg.Env
	if env == nil {
		env = os.Environ()
	}
	if cfg.Dir != "" {
		if err := checkDir(cfg.Dir); err != nil {
			return nil, err
		}
	}
	path, err := lookPath(cfg.Argv[0], pathOf(env), cfg.Dir)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	attr := &os.ProcAttr{Dir: cfg.Dir, Env: env, Files: []*os.File{null, cfg.Stdout, cfg.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	for i, f := range attr.Files {
		if f == nil {
			attr.Files[i] = null
		}
	}
	if os.Getpid() != 1 {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	c, err := cfg.Reaper.start(path, cfg.Argv, attr)
	if err != nil {
		return nil, &StartError{Code: startCode(err), Name: cfg.Argv[0], Err: cause(err)}
	}
	return c, nil
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return &StartError{Code: CodeCannotRun, Name: dir, Err: fmt.Errorf("working directory: %w", cause(err))}
	}
	return nil
}

// lookPath finds the program as execvp does: in path, unless the name has a
// slash. A file that is there but cannot be executed is remembered as the
// reason, while the search goes on.
func lookPath(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name, dir); err != nil {
			return "", &StartError{Code: startCode(err), Name: name, Err: err}
		}
		return name, nil
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		candidate := d + "/" + name // filepath.Join would drop a leading "./"
		switch err := executable(candidate, dir); {
		case err == nil:
			return candidate, nil
		case startCode(err) == CodeCannotRun && denied == nil:
			denied = err
		}
	}
	if denied != nil {
		return "", &StartError{Code: CodeCannotRun, Name: name, Err: denied}
	}
	return "", &StartError{Code: CodeNotFound, Name: name, Err: errNotInPath}
}

// executable says why file, relative to dir, cannot be executed.
func executable(file, dir string) error {
	if !filepath.IsAbs(file) && dir != "" {
		file = filepath.Join(dir, file)
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return cause(err)
	case info.IsDir():
		return syscall.EISDIR
	case info.Mode().Perm()&0o111 == 0:
		return syscall.EACCES
	}
	return nil
}

func startCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return CodeNotFound
	}
	return CodeCannotRun
}

// cause strips what os adds to an error, since a StartError names the file.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// pathOf returns PATH of env; the last assignment counts, as in os/exec.
func pathOf(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], "PATH="); ok {
			return v
		}
	}
	return ""
}
