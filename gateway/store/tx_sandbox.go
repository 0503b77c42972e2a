// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"

	"github.com/google/uuid"
)

// InsertSandbox stores a new sandbox and returns it as stored. It sets
// ResourceVersion and Created, and where they are zero ID, Generation (1),
// Lifecycle (Running) and Changed (Created). ErrExists if the id is taken or
// the name is taken in the workspace.
func (tx Tx) InsertSandbox(s Sandbox) (Sandbox, error) {
	s, err := tx.t.insertSandbox(s)
	return s, tx.t.check(failed("insert sandbox", err))
}

// UpdateSandbox replaces the sandbox of that id, if its stored resource version
// is s.ResourceVersion (else ErrConflict), and returns it as stored, with a new
// version. Workspace, Name and Created stay what they were. When Lifecycle
// changes and the caller has left Changed alone, Changed becomes now.
func (tx Tx) UpdateSandbox(s Sandbox) (Sandbox, error) {
	s, err := tx.t.updateSandbox(s)
	return s, tx.t.check(failed("update sandbox", err))
}

// DeleteSandbox deletes a sandbox and its services, or returns ErrNotFound.
func (tx Tx) DeleteSandbox(id string) error {
	tx.t.touch(id)
	n, err := tx.t.exec(tx.t.ctx, "DELETE FROM sandboxes WHERE id = ?1", id)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return tx.t.check(failed("delete sandbox", err))
}

func (t *transaction) insertSandbox(s Sandbox) (Sandbox, error) {
	s.ID = cmp.Or(s.ID, uuid.NewString())
	s.Generation = cmp.Or(s.Generation, 1)
	s.Lifecycle = cmp.Or(s.Lifecycle, Running)
	s.Created = t.now
	if s.Changed.IsZero() {
		s.Changed = s.Created
	}
	if err := s.valid(); err != nil {
		return Sandbox{}, err
	}
	s.ResourceVersion = t.next()
	t.touch(s.ID)
	s = s.canonical()
	n, err := t.exec(t.ctx, "INSERT INTO sandboxes ("+sandboxColumns+") VALUES "+
		"(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19) ON CONFLICT DO NOTHING",
		s.ID, s.Workspace, s.Name, encode(s.Labels), encode(s.Annotations), s.Driver, s.LogLevel, s.Image,
		encode(s.Environment), encode(s.Command), s.TTY, int64(s.ResourceVersion), int64(s.Generation), string(s.Lifecycle),
		s.Connected, s.ExitCode, s.Instance, s.Created.UnixMicro(), s.Changed.UnixMicro())
	if err == nil && n == 0 {
		err = ErrExists
	}
	if err != nil {
		return Sandbox{}, err
	}
	return s, nil
}

func (t *transaction) updateSandbox(s Sandbox) (Sandbox, error) {
	old, err := t.sandboxByID(t.ctx, s.ID)
	if err != nil {
		return Sandbox{}, err
	}
	if old.ResourceVersion != s.ResourceVersion {
		return Sandbox{}, ErrConflict
	}
	s.Workspace, s.Name, s.Created = old.Workspace, old.Name, old.Created
	if s.Lifecycle != old.Lifecycle && s.Changed.Equal(old.Changed) {
		s.Changed = t.now
	}
	if err := s.valid(); err != nil {
		return Sandbox{}, err
	}
	s.ResourceVersion = t.next()
	t.touch(s.ID)
	s = s.canonical()
	_, err = t.exec(t.ctx, "UPDATE sandboxes SET labels = ?2, annotations = ?3, driver = ?4, log_level = ?5, image = ?6, "+
		"environment = ?7, command = ?8, tty = ?9, resource_version = ?10, generation = ?11, lifecycle = ?12, "+
		"connected = ?13, exit_code = ?14, instance = ?15, changed = ?16 WHERE id = ?1",
		s.ID, encode(s.Labels), encode(s.Annotations), s.Driver, s.LogLevel, s.Image,
		encode(s.Environment), encode(s.Command), s.TTY, int64(s.ResourceVersion), int64(s.Generation), string(s.Lifecycle),
		s.Connected, s.ExitCode, s.Instance, s.Changed.UnixMicro())
	if err != nil {
		return Sandbox{}, err
	}
	return s, nil
}
