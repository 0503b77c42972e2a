// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"sync"

	"github.com/sandbox-agent/sandbox-agent/probe"
)

// ErrHasGateway is returned by SetServices of an agent that is not alone: its
// gateway says what to probe.
var ErrHasGateway = errors.New("the gateway tells what to probe")

// alone gives the services of the configuration their revisions.
type alone struct {
	mu    sync.Mutex
	last  uint64
	given map[probe.Service]uint64 // by service without revision
}

// revise returns the services with their revisions: those that were there
// before, unchanged, keep theirs.
func (a *alone) revise(services []probe.Service) []probe.Service {
	a.mu.Lock()
	defer a.mu.Unlock()
	given := make(map[probe.Service]uint64, len(services))
	revised := make([]probe.Service, len(services))
	for i, s := range services {
		s.Revision = 0
		revision, known := a.given[s]
		if !known {
			a.last++
			revision = a.last
		}
		given[s] = revision
		s.Revision = revision
		revised[i] = s
	}
	a.given = given
	return revised
}

// SetServices replaces the services of an agent without gateway. Those that
// stay as they are keep their verdicts.
func (a *Agent) SetServices(services []probe.Service) error {
	if a.cfg.Gateway != "" {
		return ErrHasGateway
	}
	if err := (Config{Services: services}).validateAlone(); err != nil {
		return err
	}
	a.scheduler.SetServices(a.alone.revise(services))
	return nil
}
