// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

const (
	warmUp = 500
	calls  = 5000
)

// getService measures the latency of GetService, one call after the other over
// TLS on loopback, beside that of Health, which reads no store and evaluates
// nothing: the difference is what the answer costs.
func getService(b *bench) error {
	for _, args := range [][]string{{"sandbox", "create", "bench", "--expose", "8080", "--expose-readiness-path", "/readyz"}} {
		if r := b.bed.CLI(b.ctx, args...); r.Code != 0 {
			return fmt.Errorf("sandboxctl: %s", r.Stderr)
		}
	}
	client, err := b.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	for _, m := range []struct {
		name string
		call func() error
	}{
		{"Health", func() error { _, err := client.Health(b.ctx); return err }},
		{"GetService", func() error {
			_, err := client.GetService(b.ctx, &openshellv1.GetServiceRequest{Sandbox: "bench"})
			return err
		}},
	} {
		d, err := latencies(m.call)
		if err != nil {
			return err
		}
		b.printf("%-12s p50 %v  p99 %v  (%d calls)", m.name, at(d, 50), at(d, 99), len(d))
	}
	return nil
}

// dial connects the Go SDK to the bed's gateway.
func (b *bench) dial() (*sandbox.Client, error) {
	options, err := sandbox.FromStateDir(b.bed.State)
	if err != nil {
		return nil, err
	}
	return sandbox.Dial(b.ctx, options)
}

// latencies returns the sorted durations of calls.
func latencies(call func() error) ([]time.Duration, error) {
	d := make([]time.Duration, 0, calls)
	for i := range warmUp + calls {
		began := time.Now()
		if err := call(); err != nil {
			return nil, err
		}
		if i >= warmUp {
			d = append(d, time.Since(began))
		}
	}
	slices.Sort(d)
	return d, nil
}

// at returns the p-th percentile of sorted durations.
func at(d []time.Duration, p int) time.Duration {
	return d[(len(d)-1)*p/100].Round(time.Microsecond)
}
