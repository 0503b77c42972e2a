// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import "time"

// canonical is a sandbox as it comes back from the database.
func (s Sandbox) canonical() Sandbox {
	s.Labels, s.Annotations, s.Environment = orNil(s.Labels), orNil(s.Annotations), orNil(s.Environment)
	if len(s.Command) == 0 {
		s.Command = nil
	}
	s.Created, s.Changed = truncate(s.Created), truncate(s.Changed)
	return s
}

// canonical is a service as it comes back from the database: a check has a
// path, and a path belongs to a check.
func (s Service) canonical() Service {
	s.Labels, s.Annotations = orNil(s.Labels), orNil(s.Annotations)
	switch {
	case !s.HasCheck:
		s.Path = ""
	case s.Path == "":
		s.Path = "/"
	}
	return s
}

func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// truncate keeps what the database can hold of an instant.
func truncate(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }
