// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	sandboxColumns = "id, workspace, name, labels, annotations, driver, log_level, image, environment, command, tty, " +
		"resource_version, generation, lifecycle, connected, exit_code, instance, created, changed"
	serviceColumns = "id, sandbox_id, workspace, sandbox, name, port, domain, has_check, path, " +
		"resource_version, revision, created, labels, annotations"
)

// scanner is what *sql.Row and *sql.Rows share.
type scanner interface{ Scan(...any) error }

func scanSandbox(row scanner) (Sandbox, error) {
	var s Sandbox
	err := row.Scan(&s.ID, &s.Workspace, &s.Name, text{&s.Labels}, text{&s.Annotations}, &s.Driver, &s.LogLevel, &s.Image,
		text{&s.Environment}, text{&s.Command}, &s.TTY, &s.ResourceVersion, &s.Generation, &s.Lifecycle, &s.Connected,
		&s.ExitCode, &s.Instance, instant{&s.Created}, instant{&s.Changed})
	return s, missing("sandbox", err)
}

func scanService(row scanner) (Service, error) {
	var s Service
	err := row.Scan(&s.ID, &s.SandboxID, &s.Workspace, &s.Sandbox, &s.Name, &s.Port, &s.Domain, &s.HasCheck, &s.Path,
		&s.ResourceVersion, &s.Revision, instant{&s.Created}, text{&s.Labels}, text{&s.Annotations})
	return s, missing("service", err)
}

// missing says what could not be read, as ErrNotFound if there was no row.
func missing(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		err = ErrNotFound
	}
	return fmt.Errorf("%s: %w", what, err)
}

// collect scans and closes rows.
func collect[T any](rows *sql.Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return all, nil
}

// text scans a map or a list out of its JSON.
type text struct{ into any }

func (t text) Scan(v any) error {
	switch v := v.(type) {
	case string:
		return t.decode([]byte(v))
	case []byte:
		return t.decode(v)
	}
	return fmt.Errorf("stored JSON has type %T", v)
}

func (t text) decode(b []byte) error {
	if len(b) <= len("{}") {
		return nil // empty stays nil
	}
	return json.Unmarshal(b, t.into)
}

// encode is the JSON that text scans. Maps are sorted, so equal values have
// equal texts.
func encode[T map[string]string | []string](v T) string {
	if len(v) == 0 {
		return "{}"
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}

// instant scans a count of microseconds since 1970.
type instant struct{ into *time.Time }

func (i instant) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("stored instant has type %T", v)
	}
	*i.into = time.UnixMicro(n).UTC()
	return nil
}
