// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"maps"

	"github.com/google/uuid"
)

// InsertService stores a new service of the sandbox s.SandboxID and returns it
// as stored. It sets ResourceVersion, Revision, Created, Workspace and Sandbox,
// and ID where it is empty. ErrNotFound without such a sandbox, ErrExists if the
// id or the name is taken, ErrTooMany beyond MaxServices.
func (tx Tx) InsertService(s Service) (Service, error) {
	s, err := tx.t.insertService(s)
	return s, tx.t.check(failed("insert service", err))
}

// UpdateService replaces Port, Domain, HasCheck, Path, Labels and Annotations of
// the service of that id, if its stored resource version is s.ResourceVersion
// (else ErrConflict), and returns it as stored. Revision moves only if Port,
// HasCheck or Path changes. An update that changes nothing writes nothing and
// keeps the version.
func (tx Tx) UpdateService(s Service) (Service, error) {
	s, err := tx.t.updateService(s)
	return s, tx.t.check(failed("update service", err))
}

// DeleteService deletes a service: ErrNotFound if there is none, ErrConflict if
// resourceVersion is not 0 and not the stored one.
func (tx Tx) DeleteService(id string, resourceVersion uint64) error {
	return tx.t.check(failed("delete service", tx.t.deleteService(id, resourceVersion)))
}

func (t *transaction) insertService(s Service) (Service, error) {
	if err := s.valid(); err != nil {
		return Service{}, err
	}
	owner, err := t.sandboxByID(t.ctx, s.SandboxID)
	if err != nil {
		return Service{}, err
	}
	s.Workspace, s.Sandbox = owner.Workspace, owner.Name
	s.ID = cmp.Or(s.ID, uuid.NewString())
	s.Created = t.now
	s.ResourceVersion = t.next()
	s.Revision = s.ResourceVersion
	t.touch(s.SandboxID)
	s = s.canonical()
	n, err := t.exec(t.ctx, "INSERT INTO services ("+serviceColumns+") VALUES "+
		"(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO NOTHING",
		s.ID, s.SandboxID, s.Workspace, s.Sandbox, s.Name, int64(s.Port), s.Domain, s.HasCheck, s.Path,
		int64(s.ResourceVersion), int64(s.Revision), s.Created.UnixMicro(), encode(s.Labels), encode(s.Annotations))
	if err == nil && n == 0 {
		err = ErrExists
	}
	if err != nil {
		return Service{}, err
	}
	// Counted after the insert, so that a name that exists says so first.
	var count int
	if err := t.row(t.ctx, "SELECT COUNT(*) FROM services WHERE sandbox_id = ?1", s.SandboxID).Scan(&count); err != nil {
		return Service{}, err
	}
	if count > MaxServices {
		if err := t.deleteService(s.ID, 0); err != nil {
			return Service{}, err
		}
		return Service{}, ErrTooMany
	}
	return s, nil
}

func (t *transaction) updateService(s Service) (Service, error) {
	if err := s.valid(); err != nil {
		return Service{}, err
	}
	old, err := t.serviceByID(t.ctx, s.ID)
	if err != nil {
		return Service{}, err
	}
	if old.ResourceVersion != s.ResourceVersion {
		return Service{}, ErrConflict
	}
	s = s.canonical()
	next := old
	next.Port, next.Domain, next.HasCheck, next.Path = s.Port, s.Domain, s.HasCheck, s.Path
	next.Labels, next.Annotations = s.Labels, s.Annotations
	configured := next.Port != old.Port || next.HasCheck != old.HasCheck || next.Path != old.Path
	if !configured && next.Domain == old.Domain &&
		maps.Equal(next.Labels, old.Labels) && maps.Equal(next.Annotations, old.Annotations) {
		return old, nil
	}
	next.ResourceVersion = t.next()
	t.touch(next.SandboxID)
	if configured {
		next.Revision = next.ResourceVersion
	}
	_, err = t.exec(t.ctx, "UPDATE services SET port = ?2, domain = ?3, has_check = ?4, path = ?5, "+
		"resource_version = ?6, revision = ?7, labels = ?8, annotations = ?9 WHERE id = ?1",
		next.ID, int64(next.Port), next.Domain, next.HasCheck, next.Path,
		int64(next.ResourceVersion), int64(next.Revision), encode(next.Labels), encode(next.Annotations))
	if err != nil {
		return Service{}, err
	}
	return next, nil
}

func (t *transaction) deleteService(id string, resourceVersion uint64) error {
	old, err := t.serviceByID(t.ctx, id)
	if err != nil {
		return err
	}
	if resourceVersion != 0 && resourceVersion != old.ResourceVersion {
		return ErrConflict
	}
	t.touch(old.SandboxID)
	_, err = t.exec(t.ctx, "DELETE FROM services WHERE id = ?1", id)
	return err
}
