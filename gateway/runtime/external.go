// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// external hands out a token; somebody else boots the sandbox.
type external struct {
	files files
}

// NewExternal returns the driver "external": it keeps DIR/<id>/token and does
// nothing else. Stop leaves the file, since a token of an older generation is
// worth nothing.
func NewExternal(cfg Config) Driver {
	return &external{files: files{dir: cfg.Dir}}
}

func (d *external) Name() string { return "external" }

func (d *external) TokenFile(id string) string { return filepath.Join(d.files.sandbox(id), "token") }

func (d *external) Start(_ context.Context, spec Spec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	if err := d.files.create(spec.ID, ""); err != nil {
		return err
	}
	if err := d.files.writeToken(d.TokenFile(spec.ID), spec.Token); err != nil {
		return errors.Join(err, d.files.remove(spec.ID))
	}
	return nil
}

func (d *external) Stop(_ context.Context, id string) error { return validID(id) }

func (d *external) Delete(_ context.Context, id string) error {
	if err := validID(id); err != nil {
		return err
	}
	return d.files.remove(id)
}

func (d *external) RenewToken(id string, token secret.String) error {
	if err := validID(id); err != nil {
		return err
	}
	return d.files.writeToken(d.TokenFile(id), token)
}

// Adopt has nothing to take over.
func (d *external) Adopt(context.Context, []Spec) error { return nil }

func (d *external) Close() error { return nil }
