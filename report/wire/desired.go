// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"math"

	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// EncodeDesired returns the message that asks for these services.
func EncodeDesired(version uint64, services []probe.Service) *supervisorv1.DesiredState {
	m := &supervisorv1.DesiredState{Version: version}
	for _, s := range services {
		m.Services = append(m.Services, &supervisorv1.ServiceConfig{
			Revision: s.Revision, Name: s.Name, Port: uint32(s.Target.Port), Path: s.Target.Path,
		})
	}
	return m
}

// DecodeDesired reads a desired state. Services that break a rule of the
// contract are left out one by one and returned as the second value's errors;
// the rest is valid. A list over the limit is ErrTooManyServices.
func DecodeDesired(m *supervisorv1.DesiredState) (services []probe.Service, bad []error, err error) {
	if n := len(m.GetServices()); n > probe.MaxServices {
		return nil, nil, fmt.Errorf("%w: it has %d", ErrTooManyServices, n)
	}
	seen := make(map[string]bool, len(m.GetServices()))
	for i, c := range m.GetServices() {
		s := probe.Service{Name: c.GetName(), Revision: c.GetRevision()}
		switch {
		case c.GetPort() > math.MaxUint16:
			bad = append(bad, fmt.Errorf("services[%d].port: %d is not in 1..65535", i, c.GetPort()))
			continue
		case seen[s.Name]:
			bad = append(bad, fmt.Errorf("services[%d].name: %q appears twice", i, s.Name))
			continue
		}
		s.Target = probe.Target{Port: uint16(c.GetPort()), Path: c.GetPath()}
		if err := s.Target.Validate(); err != nil {
			bad = append(bad, fmt.Errorf("services[%d]: %w", i, err))
			continue
		}
		seen[s.Name] = true
		services = append(services, s)
	}
	return services, bad, nil
}
