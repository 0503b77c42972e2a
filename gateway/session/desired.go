// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"slices"
	"sync"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/report/wire"
)

// desiredState is what one session was told to observe. It translates the
// revisions that come back in reports; those of the list before the newest are
// still known, since a report under way may name them.
type desiredState struct {
	mu       sync.Mutex
	version  uint64
	list     []probe.Service
	services map[string]bool   // ids in the newest list
	ids      map[uint64]string // revision -> service id, newest list
	previous map[uint64]string // the same, list before
}

// update takes over the stored services. It returns the message that says so,
// and whether it differs from the last one.
func (d *desiredState) update(services []Service) (*supervisorv1.DesiredState, bool) {
	services = slices.Clone(services)
	slices.SortFunc(services, func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	list := make([]probe.Service, len(services))
	ids := make(map[uint64]string, len(services))
	byID := make(map[string]bool, len(services))
	for i, s := range services {
		list[i] = s.Service
		ids[s.Revision] = s.ID
		byID[s.ID] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.version > 0 && slices.Equal(d.list, list) {
		return nil, false
	}
	d.version++
	d.previous = d.ids
	d.list, d.ids, d.services = list, ids, byID
	return wire.EncodeDesired(d.version, list), true
}

// service returns the id of the service that a revision names.
func (d *desiredState) service(revision uint64) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, ok := d.ids[revision]; ok {
		return id, true
	}
	id, ok := d.previous[revision]
	return id, ok
}

// all returns the ids of the newest list. The map is not changed any more.
func (d *desiredState) all() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.services
}
