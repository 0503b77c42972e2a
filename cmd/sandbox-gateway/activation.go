// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// inherited returns the listeners that the service manager has bound for this
// process, by name. Children do not get them.
func inherited() (map[string][]net.Listener, error) {
	listeners := make(map[string][]net.Listener)
	var errs []error
	for _, f := range activation.Files(true) {
		l, err := net.FileListener(f)
		if err := errors.Join(err, f.Close()); err != nil {
			errs = append(errs, fmt.Errorf("inherited socket %q: %w", f.Name(), err))
			continue
		}
		listeners[f.Name()] = append(listeners[f.Name()], l)
	}
	return listeners, errors.Join(errs...)
}
