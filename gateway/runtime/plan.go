// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	agentName = "sandbox-agent"
	// agentOps is the same everywhere: each sandbox has its own loopback.
	agentOps    = "127.0.0.1:17692"
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// LogLevelVar is how a Spec's LogLevel reaches the agent.
	LogLevelVar = "SANDBOX_AGENT_LOG_LEVEL"
)

// paths are the resolved places of one configuration.
type paths struct {
	stateDir string
	socket   string
	agent    string
	show     []string // of the socket, if it is hidden with stateDir
}

// resolve makes cfg's paths absolute and free of links, and refuses what cannot
// be hidden or would be hidden by mistake. Dir must exist.
func resolve(cfg Config) (paths, error) {
	var p paths
	dir, err := realDir("Dir", cfg.Dir)
	if err != nil {
		return p, err
	}
	state := cfg.StateDir
	if state == "" {
		state = filepath.Dir(dir)
	}
	if p.stateDir, err = realDir("StateDir", state); err != nil {
		return p, err
	}
	if p.stateDir == "/" || !below(dir, p.stateDir) {
		return p, fmt.Errorf("StateDir: %w: must be a directory above Dir (%s) and not the root", ErrInvalid, dir)
	}
	socketDir, err := realDir("Socket", filepath.Dir(cfg.Socket))
	if err != nil {
		return p, err
	}
	p.socket = filepath.Join(socketDir, filepath.Base(cfg.Socket))
	if socketDir == p.stateDir || below(socketDir, p.stateDir) {
		if socketDir == p.stateDir || socketDir == dir || below(dir, socketDir) || below(socketDir, dir) {
			return p, fmt.Errorf("Socket: %w: %s shares its directory with state that sandboxes must not see; "+
				"give it a directory of its own", ErrInvalid, p.socket)
		}
		p.show = []string{socketDir}
	}
	if p.agent, err = findAgent(cfg.AgentPath); err != nil {
		return p, err
	}
	// What it links to is hidden, or not, with its place.
	real, err := filepath.EvalSymlinks(p.agent)
	if err != nil {
		return p, fmt.Errorf("AgentPath: %w", err)
	}
	if below(p.agent, p.stateDir) || below(real, p.stateDir) {
		return p, fmt.Errorf("AgentPath: %w: %s is below the state directory, which sandboxes do not see", ErrInvalid, p.agent)
	}
	return p, nil
}

func realDir(field, dir string) (string, error) {
	if dir == "" {
		return "", fmt.Errorf("%s: %w: is empty", field, ErrInvalid)
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return abs, nil
}

// below reports whether path is within dir, and not dir itself.
func below(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// findAgent returns the absolute path of the agent's binary.
func findAgent(configured string) (string, error) {
	if configured != "" {
		abs, err := filepath.Abs(configured)
		if err == nil {
			_, err = exec.LookPath(abs)
		}
		if err != nil {
			return "", fmt.Errorf("AgentPath: %w", err)
		}
		return abs, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), agentName)
	if found, err := exec.LookPath(beside); err == nil {
		return found, nil
	}
	found, err := exec.LookPath(agentName)
	if err != nil {
		return "", fmt.Errorf("%s is neither %s nor in PATH: install it there or set the agent's path", agentName, beside)
	}
	return filepath.Abs(found)
}

// makeOrder is what the second stage gets for spec.
func makeOrder(spec Spec, p paths, tokenFile string, getenv func(string) string) order {
	argv := []string{agentName, "run", "--gateway", "unix:" + p.socket, "--token-file", tokenFile, "--ops-listen", agentOps}
	if len(spec.Command) > 0 {
		argv = append(append(argv, "--"), spec.Command...)
	}
	return order{
		Hostname: spec.Name,
		StateDir: p.stateDir,
		Show:     append(slices.Clone(p.show), filepath.Dir(tokenFile)),
		Path:     p.agent,
		Argv:     argv,
		Env:      environment(spec, getenv),
	}
}

// environment is PATH and HOME of the gateway, the log level, and what the spec
// says, which wins; nothing else of the gateway's environment, since that may
// hold secrets.
func environment(spec Spec, getenv func(string) string) []string {
	vars := map[string]string{"PATH": getenv("PATH"), "HOME": getenv("HOME")}
	if vars["PATH"] == "" {
		vars["PATH"] = defaultPath
	}
	if vars["HOME"] == "" {
		vars["HOME"] = "/"
	}
	if spec.LogLevel != "" {
		vars[LogLevelVar] = spec.LogLevel
	}
	maps.Copy(vars, spec.Environment)
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// errNoAgent is wrapped when the second stage ended without a word.
var errNoAgent = errors.New("the second stage ended before it could execute the agent")
