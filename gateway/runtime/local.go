// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"path/filepath"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// InitArg as the first argument of the gateway's executable means: this is not
// a gateway but the second stage of a local sandbox; call Init with the
// arguments after it, before anything else, and exit with what it returns.
const InitArg = "__sandbox-init"

// Init is the second stage of a local sandbox. It returns an exit code if it
// could not execute the agent, and does not return otherwise.
func Init([]string) int { return 1 }

type local struct {
	files files
}

// NewLocal returns the driver "local".
func NewLocal(cfg Config) Driver { return &local{files: files{dir: cfg.Dir}} }

func (d *local) Name() string { return "local" }
func (d *local) TokenFile(id string) string {
	return filepath.Join(d.files.sandbox(id), "credentials", "token")
}
func (d *local) Start(context.Context, Spec) error      { return ErrUnsupported }
func (d *local) Stop(context.Context, string) error     { return nil }
func (d *local) Delete(context.Context, string) error   { return nil }
func (d *local) RenewToken(string, secret.String) error { return nil }
func (d *local) Adopt(context.Context, []Spec) error    { return nil }
func (d *local) Close() error                           { return nil }
