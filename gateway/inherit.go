// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Names of the sockets that a service manager may pass (FileDescriptorName= of
// a socket unit). SocketLocal is the unix socket for agents on this host.
const (
	SocketGRPC       = "grpc"
	SocketHTTP       = "http"
	SocketSupervisor = "supervisor"
	SocketLocal      = "supervisor-socket"
	SocketOps        = "ops"
)

// checkInherited returns every fault of what was inherited.
func (c Config) checkInherited() error {
	networks := map[string]string{
		SocketGRPC: "tcp", SocketHTTP: "tcp", SocketSupervisor: "tcp", SocketLocal: "unix", SocketOps: "tcp",
	}
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("inherited socket %q: "+format, append([]any{name}, args...)...))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Inherited)) {
		passed := c.Inherited[name]
		network, known := networks[name]
		switch {
		case !known:
			bad(name, "no such listener; FileDescriptorName= is one of %s", strings.Join(slices.Sorted(maps.Keys(networks)), ", "))
		case len(passed) != 1:
			bad(name, "%d sockets have this name; one is allowed", len(passed))
		case passed[0].Addr().Network() != network:
			bad(name, "is of %s; %s is needed", passed[0].Addr().Network(), network)
		}
	}
	return errors.Join(errs...)
}

// closeInherited closes what no listener has taken over; closing twice is
// harmless.
func (c Config) closeInherited() {
	for _, passed := range c.Inherited {
		for _, l := range passed {
			l.Close()
		}
	}
}

// agree compares an address of the configuration with that of the inherited
// socket, which is used. An address that was not configured agrees with any;
// of a host name only the port is compared, since looking it up may take long.
func agree(configured, standard string, inherited net.Addr) error {
	if configured == standard {
		return nil
	}
	a, err := netip.ParseAddrPort(inherited.String())
	if err != nil {
		return fmt.Errorf("the inherited socket has no TCP address: %w", err)
	}
	host, port, err := net.SplitHostPort(configured)
	if err != nil {
		return err
	}
	want, err := netip.ParseAddr(host)
	anywhere := host == "" || err == nil && want.IsUnspecified()
	same := err != nil || want.Unmap() == a.Addr().Unmap()
	if anywhere {
		same = a.Addr().IsUnspecified()
	}
	if port != "0" && port != fmt.Sprint(a.Port()) || !same {
		return disagreement(configured, inherited)
	}
	return nil
}

// agreeSocket is agree for the unix socket.
func agreeSocket(configured string, inherited net.Addr) error {
	if configured != "" && configured != inherited.String() {
		return disagreement(configured, inherited)
	}
	return nil
}

func disagreement(configured string, inherited net.Addr) error {
	return fmt.Errorf("%q is configured, but the inherited socket is %q: change the socket unit, or leave the setting out", configured, inherited)
}
