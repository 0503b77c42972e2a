// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store

import "time"

// MaxServices is how many services one sandbox can have.
const MaxServices = 256

// Lifecycle is what was asked of a sandbox, not what is seen of it.
type Lifecycle string

// The lifecycles of a sandbox.
const (
	Creating Lifecycle = "creating" // being booted for the first time
	Running  Lifecycle = "running"
	Stopping Lifecycle = "stopping"
	Stopped  Lifecycle = "stopped"
	Starting Lifecycle = "starting"
	Deleting Lifecycle = "deleting"
)

// Sandbox is the stored record of a sandbox. Instants are UTC with microsecond
// precision; empty maps and slices come back as nil.
type Sandbox struct {
	ID              string // random UUID, never reused
	Workspace, Name string // unique together
	Labels          map[string]string
	Annotations     map[string]string
	Driver          string

	LogLevel, Image string
	Environment     map[string]string
	Command         []string
	TTY             bool

	ResourceVersion uint64
	Generation      uint64 // from 1; grows with every start
	Lifecycle       Lifecycle
	Connected       bool   // a session was seen in this generation
	ExitCode        *int32 // of the main process, once it has exited
	Instance        string // of the agent whose session is live or was last

	Created time.Time
	Changed time.Time // last change of Lifecycle, or what the caller set
}

// Service is the stored endpoint of a service.
type Service struct {
	ID                       string // random UUID, never reused
	SandboxID                string
	Workspace, Sandbox, Name string // unique together; the empty name is the unnamed service
	Port                     uint16
	Domain                   bool
	HasCheck                 bool   // a readiness check is configured
	Path                     string // its path, never empty; empty without a check

	ResourceVersion uint64
	// Revision is the resource version of the write that last changed Port,
	// HasCheck or Path. No two configurations ever share one.
	Revision uint64

	Created     time.Time
	Labels      map[string]string
	Annotations map[string]string
}

// Cursor is a position in a listing: the key of the last object that was seen.
// The zero Cursor is the beginning. A page that starts after a cursor skips and
// repeats nothing that exists throughout, whatever is inserted or deleted
// between pages.
type Cursor struct {
	Workspace, Sandbox, Name string // Sandbox is empty in a listing of sandboxes
	Set                      bool
}

// SandboxQuery selects sandboxes.
type SandboxQuery struct {
	Workspace string            // empty: all
	Labels    map[string]string // all of which a sandbox must carry
	After     Cursor
	Limit     int // 0: no limit
}

// ServiceQuery selects services.
type ServiceQuery struct {
	Workspace    string // empty: all
	Sandbox      string // name of the sandbox, unless AllSandboxes
	AllSandboxes bool
	After        Cursor
	Limit        int // 0: no limit
}

// Request identifies a mutation for replay.
type Request struct {
	ID      string   // a UUID in lower case, or empty: nothing is remembered
	Method  string   // the RPC
	Payload [32]byte // hash of the canonical request
}
