// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sandbox returns the sandbox of that name, or ErrNotFound.
func (s *Store) Sandbox(ctx context.Context, workspace, name string) (_ Sandbox, err error) {
	defer s.observe("sandbox", time.Now(), &err)
	return s.readers.sandbox(ctx, workspace, name)
}

// SandboxByID returns the sandbox of that id, or ErrNotFound.
func (s *Store) SandboxByID(ctx context.Context, id string) (_ Sandbox, err error) {
	defer s.observe("sandbox", time.Now(), &err)
	return s.readers.sandboxByID(ctx, id)
}

// Sandboxes lists sandboxes in the order of (workspace, name), bytewise.
func (s *Store) Sandboxes(ctx context.Context, q SandboxQuery) (_ []Sandbox, err error) {
	defer s.observe("sandboxes", time.Now(), &err)
	var w where
	if q.Workspace != "" {
		w.add("workspace = %s", q.Workspace)
	}
	if q.After.Set {
		w.add("(workspace, name) > (%s, %s)", q.After.Workspace, q.After.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(q.Labels)) {
		w.add(s.dialect.hasLabel, key, q.Labels[key])
	}
	if w.err != nil {
		return nil, w.err
	}
	statement := "SELECT " + sandboxColumns + " FROM sandboxes" + w.String() + " ORDER BY workspace, name" + w.limit(q.Limit)
	rows, err := s.readers.rows(ctx, statement, w.args...)
	return collect(rows, err, scanSandbox)
}

// Service returns the service of that name, or ErrNotFound.
func (s *Store) Service(ctx context.Context, workspace, sandbox, name string) (_ Service, err error) {
	defer s.observe("service", time.Now(), &err)
	return s.readers.service(ctx, workspace, sandbox, name)
}

// Services lists services in the order of (workspace, sandbox, name), bytewise.
func (s *Store) Services(ctx context.Context, q ServiceQuery) (_ []Service, err error) {
	defer s.observe("services", time.Now(), &err)
	var w where
	if q.Workspace != "" {
		w.add("workspace = %s", q.Workspace)
	}
	if !q.AllSandboxes {
		w.add("sandbox = %s", q.Sandbox)
	}
	if q.After.Set {
		w.add("(workspace, sandbox, name) > (%s, %s, %s)", q.After.Workspace, q.After.Sandbox, q.After.Name)
	}
	if w.err != nil {
		return nil, w.err
	}
	statement := "SELECT " + serviceColumns + " FROM services" + w.String() + " ORDER BY workspace, sandbox, name" + w.limit(q.Limit)
	rows, err := s.readers.rows(ctx, statement, w.args...)
	return collect(rows, err, scanService)
}

// ServicesOf lists all services of a sandbox in the order of their names.
// There are none if there is no such sandbox.
func (s *Store) ServicesOf(ctx context.Context, sandboxID string) (_ []Service, err error) {
	defer s.observe("services", time.Now(), &err)
	return s.readers.servicesOf(ctx, sandboxID)
}

// Reads by key.
const (
	sandboxByName = "SELECT " + sandboxColumns + " FROM sandboxes WHERE workspace = ?1 AND name = ?2"
	sandboxByID   = "SELECT " + sandboxColumns + " FROM sandboxes WHERE id = ?1"
	serviceByName = "SELECT " + serviceColumns + " FROM services WHERE workspace = ?1 AND sandbox = ?2 AND name = ?3"
	serviceByID   = "SELECT " + serviceColumns + " FROM services WHERE id = ?1"
	servicesOf    = "SELECT " + serviceColumns + " FROM services WHERE sandbox_id = ?1 ORDER BY name"
)

// CountServices returns how many services there are.
func (s *Store) CountServices(ctx context.Context) (n int64, err error) {
	defer s.observe("count", time.Now(), &err)
	if err := s.readers.row(ctx, "SELECT COUNT(*) FROM services").Scan(&n); err != nil {
		return 0, fmt.Errorf("count services: %w", err)
	}
	return n, nil
}

func (c conn) sandbox(ctx context.Context, workspace, name string) (Sandbox, error) {
	return scanSandbox(c.row(ctx, sandboxByName, workspace, name))
}

func (c conn) sandboxByID(ctx context.Context, id string) (Sandbox, error) {
	return scanSandbox(c.row(ctx, sandboxByID, id))
}

func (c conn) service(ctx context.Context, workspace, sandbox, name string) (Service, error) {
	return scanService(c.row(ctx, serviceByName, workspace, sandbox, name))
}

func (c conn) serviceByID(ctx context.Context, id string) (Service, error) {
	return scanService(c.row(ctx, serviceByID, id))
}

func (c conn) servicesOf(ctx context.Context, sandboxID string) ([]Service, error) {
	rows, err := c.rows(ctx, servicesOf, sandboxID)
	return collect(rows, err, scanService)
}

// where gathers conditions and their parameters.
type where struct {
	terms []string
	args  []any
	err   error // ErrInvalid
}

// add adds a condition in which each %s stands for the next value.
func (w *where) add(format string, values ...any) {
	marks := make([]any, len(values))
	for i, v := range values {
		marks[i] = w.mark(v)
	}
	w.terms = append(w.terms, fmt.Sprintf(format, marks...))
}

func (w *where) mark(value any) string {
	if s, ok := value.(string); ok && !validText(s) {
		w.err = fmt.Errorf("%w: query: text must be UTF-8 without NUL", ErrInvalid)
	}
	w.args = append(w.args, value)
	return fmt.Sprintf("?%d", len(w.args))
}

func (w *where) String() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}

func (w *where) limit(n int) string {
	if n <= 0 {
		return ""
	}
	return " LIMIT " + w.mark(n)
}
