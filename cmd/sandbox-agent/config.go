// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/agent"
	"github.com/sandbox-agent/sandbox-agent/internal/obs"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/settings"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

const (
	envPrefix = "SANDBOX_AGENT_"
	tokenVar  = envPrefix + "TOKEN"
	// Credentials of the service manager (systemd.exec(5)).
	credentialsVar  = "CREDENTIALS_DIRECTORY"
	tokenCredential = "sandbox-token"
	caCredential    = "sandbox-ca"
	// The directory that the service manager keeps for the agent.
	stateVar = "STATE_DIRECTORY"

	defaultOps = "127.0.0.1:17692"
)

// private are the variables that are the agent's alone and not its command's.
var private = []string{tokenVar, credentialsVar, stateVar, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

// options are the flags of run and check.
type options struct {
	agent     agent.Config
	services  []string
	file      string
	logLevel  string
	logFormat string
}

func (o *options) register(cmd *cobra.Command) {
	c, f := &o.agent, cmd.Flags()
	f.StringVar(&c.Gateway, "gateway", "", "https://HOST:PORT or unix:/PATH; without it the agent works alone")
	f.StringVar(&c.TokenFile, "token-file", "", "file with the sandbox token (or "+tokenVar+", or the credential "+tokenCredential+")")
	f.StringVar(&c.CAFile, "ca-file", "", "certificate authority of the gateway, PEM (or the credential "+caCredential+"; default the system's)")
	f.StringVar(&c.Sandbox, "sandbox", "", "id of the sandbox this agent is in; a token for another one is then refused")
	f.StringVar(&c.OpsListen, "ops-listen", defaultOps, "address of status, metrics and health")
	f.StringSliceVar(&o.services, "service", nil, "service to probe without a gateway, NAME=PORT or NAME=PORT/READINESS/PATH; repeatable")
	f.StringVar(&o.file, "config", "", "YAML file with these settings, named as the flags are")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text, json, or journal: text for systemd's journal")
}

// logger returns the logger that the options ask for, and sets its level.
func (o *options) logger(w io.Writer, level *slog.LevelVar) (*slog.Logger, error) {
	l, err := obs.ParseLevel(o.logLevel)
	if err != nil {
		return nil, err
	}
	level.Set(l)
	return obs.NewLogger(w, level, o.logFormat)
}

// load completes the options from environment, credentials and file, and
// checks them.
func (o *options) load(cmd *cobra.Command, environ []string) error {
	if err := settings.Fill(cmd.Flags(), o.file, envPrefix, environ, "config", "help", "probe"); err != nil {
		return err
	}
	if _, err := o.logger(io.Discard, new(slog.LevelVar)); err != nil {
		return err
	}
	env := lookup(environ)
	c := &o.agent
	if c.Gateway != "" {
		c.Token = secret.New(strings.TrimSpace(env(tokenVar)))
		var err error
		if c.TokenFile == "" && c.Token.IsZero() {
			if c.TokenFile, err = credential(env(credentialsVar), tokenCredential); err != nil {
				return err
			}
			if state := env(stateVar); c.TokenFile != "" && filepath.IsAbs(state) {
				c.TokenKeep = filepath.Join(state, "token")
			}
		}
		if c.CAFile == "" {
			if c.CAFile, err = credential(env(credentialsVar), caCredential); err != nil {
				return err
			}
		}
	}
	for _, text := range o.services {
		s, err := parseService(text)
		if err != nil {
			return err
		}
		c.Services = append(c.Services, s)
	}
	return c.Validate()
}

// credential returns the path of a credential, or "" if there is none.
func credential(dir, name string) (string, error) {
	if dir == "" {
		return "", nil
	}
	path := filepath.Join(dir, name)
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("credential %s: %w", name, err)
	}
	return path, nil
}

// parseService reads NAME=PORT or NAME=PORT/PATH.
func parseService(text string) (probe.Service, error) {
	name, target, ok := strings.Cut(text, "=")
	if !ok {
		return probe.Service{}, fmt.Errorf("service: %q is not of the form NAME=PORT or NAME=PORT/PATH", text)
	}
	port, path, hasPath := strings.Cut(target, "/")
	if hasPath {
		path = "/" + path
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return probe.Service{}, fmt.Errorf("service: %q: port %q is not a number in 1..65535", text, port)
	}
	return probe.Service{Name: name, Target: probe.Target{Port: uint16(n), Path: path}}, nil
}

// lookup reads a variable of an environment.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range environ {
			if k, v, _ := strings.Cut(kv, "="); k == name {
				return v
			}
		}
		return ""
	}
}

// public returns the environment without what is the agent's alone.
func public(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(private, name)
	})
}
