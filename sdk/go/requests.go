// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"crypto/rand"
	"fmt"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
)

// NewRequestID returns a random UUID (version 4) for the RequestId of a
// mutation: the gateway carries out one id and payload once within 24 hours,
// however often it is sent.
func NewRequestID() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // never fails: it ends the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Workspace selects one workspace; the empty name is the gateway's default.
func Workspace(name string) *datamodelv1.WorkspaceSelector {
	if name == "" {
		return nil
	}
	return &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_Workspace{Workspace: name}}
}

// AllWorkspaces selects every workspace. Lists alone take it.
func AllWorkspaces() *datamodelv1.WorkspaceSelector {
	return &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_AllWorkspaces{AllWorkspaces: &datamodelv1.AllWorkspaces{}}}
}
