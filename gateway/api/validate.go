// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

const (
	// DefaultWorkspace is meant where a request names none.
	DefaultWorkspace = "default"
	maxName          = 28
	maxPairs         = 64
	maxKey           = 253
	maxValue         = 4096
	maxCommand       = 64 << 10 // bytes of all arguments, or of all variables
	defaultPage      = 100
	maxPage          = 1000
)

// validName checks a workspace, sandbox or service name.
func validName(field, name string) error {
	const rule = "names are lowercase DNS labels of at most 28 characters without \"--\""
	switch {
	case name == "":
		return invalid(field, "is empty; %s", rule)
	case utf8.RuneCountInString(name) > maxName:
		return invalid(field, "has %d characters; %s", utf8.RuneCountInString(name), rule)
	case name[0] == '-' || name[len(name)-1] == '-':
		return invalid(field, "%q begins or ends with \"-\"; %s", name, rule)
	case strings.Contains(name, "--"):
		return invalid(field, "%q contains \"--\"; %s", name, rule)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return invalid(field, "%q contains %q; %s", name, r, rule)
		}
	}
	return nil
}

// workspaceOf returns the one workspace that a request works in.
func workspaceOf(sel *datamodelv1.WorkspaceSelector) (string, error) {
	if sel.GetAllWorkspaces() != nil {
		return "", invalid("workspace_scope", "all_workspaces is allowed on list requests only; name one workspace")
	}
	if sel.GetWorkspace() == "" {
		return DefaultWorkspace, nil
	}
	return sel.GetWorkspace(), validName("workspace_scope.workspace", sel.GetWorkspace())
}

// workspacesOf is workspaceOf for lists: "" means all.
func workspacesOf(sel *datamodelv1.WorkspaceSelector) (string, error) {
	if sel.GetAllWorkspaces() != nil {
		return "", nil
	}
	return workspaceOf(sel)
}

func validPort(field string, port uint32) (uint16, error) {
	if port < 1 || port > 65535 {
		return 0, invalid(field, "%d is not a TCP port; it must be in 1..65535", port)
	}
	return uint16(port), nil
}

// checkOf returns the effective readiness check that a request configures.
func checkOf(field string, c *openshellv1.HttpReadinessCheck) (has bool, path string, err error) {
	if c == nil {
		return false, "", nil
	}
	if err := probe.ValidatePath(c.GetPath()); err != nil {
		return false, "", invalid(field+".path", "%v", err)
	}
	if c.GetPath() == "" {
		return true, "/", nil
	}
	return true, c.GetPath(), nil
}

// requestID checks an optional request id and returns it in its one form.
func requestID(id string) (string, error) {
	if id == "" {
		return "", nil
	}
	u, err := uuid.Parse(id)
	if err != nil || len(id) != 36 {
		return "", invalid("request_id", "is not a UUID such as 6ba7b810-9dad-41d1-80b4-00c04fd430c8")
	}
	if u == uuid.Nil {
		return "", invalid("request_id", "is the zero UUID; it must be a random one")
	}
	return u.String(), nil
}

// validPairs checks labels, annotations or variables.
func validPairs(field string, m map[string]string) error {
	if len(m) > maxPairs {
		return invalid(field, "has %d entries; at most %d are allowed", len(m), maxPairs)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v := m[k]
		switch {
		case k == "" || len(k) > maxKey:
			return invalid(field, "a key has %d bytes; it must have 1..%d", len(k), maxKey)
		case len(v) > maxValue:
			return invalid(field, "the value of %q has %d bytes; at most %d are allowed", k, len(v), maxValue)
		case !plain(k) || strings.ContainsAny(k, "=, "):
			return invalid(field, "key %q: control characters, blanks, \"=\" and \",\" are not allowed", k)
		case !plain(v):
			return invalid(field, "the value of %q contains control characters or is not UTF-8", k)
		}
	}
	return nil
}

// plain reports whether a text is UTF-8 without control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

func validSpec(s *openshellv1.SandboxSpec) error {
	total := 0
	for i, arg := range s.GetCommand() {
		if strings.ContainsRune(arg, 0) {
			return invalid(fmt.Sprintf("spec.command[%d]", i), "contains a zero byte")
		}
		total += len(arg) + 1
	}
	if len(s.GetCommand()) > 0 && s.GetCommand()[0] == "" {
		return invalid("spec.command[0]", "is empty; it names the program")
	}
	if total > maxCommand {
		return invalid("spec.command", "has %d bytes; at most %d are allowed", total, maxCommand)
	}
	if len(s.GetEnvironment()) > 256 {
		return invalid("spec.environment", "has %d entries; at most 256 are allowed", len(s.GetEnvironment()))
	}
	total = 0
	for _, k := range slices.Sorted(maps.Keys(s.GetEnvironment())) {
		v := s.GetEnvironment()[k]
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return invalid("spec.environment", "name %.64q: names must not be empty or contain \"=\", nothing may contain a zero byte", k)
		}
		total += len(k) + len(v) + 2
	}
	if total > maxCommand {
		return invalid("spec.environment", "has %d bytes; at most %d are allowed", total, maxCommand)
	}
	if img := s.GetTemplate().GetImage(); len(img) > 512 || !plain(img) {
		return invalid("spec.template.image", "is longer than 512 bytes or contains control characters")
	}
	if l := s.GetLogLevel(); l != "" && l != "debug" && l != "info" && l != "warn" && l != "error" {
		return invalid("spec.log_level", "%.64q is not one of debug, info, warn, error", l)
	}
	return nil
}

// selector reads "key=value,key=value".
func selector(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	m := make(map[string]string)
	for term := range strings.SplitSeq(text, ",") {
		k, v, ok := strings.Cut(term, "=")
		if !ok || k == "" {
			return nil, invalid("label_selector", "term %.64q is not of the form key=value", term)
		}
		if strings.HasSuffix(k, "!") || strings.HasPrefix(v, "=") {
			return nil, invalid("label_selector", "term %.64q: there are no operators, only key=value", term)
		}
		if old, twice := m[k]; twice && old != v {
			return nil, invalid("label_selector", "key %.64q is asked to have two values", k)
		}
		m[k] = v
	}
	return m, validPairs("label_selector", m)
}
