// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strconv"
	"testing"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// A thousand services of fifty sandboxes, and one that flips.
func TestMany(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	options, err := sandbox.FromStateDir(s.bed.State)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sandbox.Dial(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 50 {
		r := &openshellv1.CreateSandboxRequest{Name: fmt.Sprintf("box-%02d", i)}
		for j := range 20 {
			r.ServiceExposures = append(r.ServiceExposures, &openshellv1.SandboxServiceExposure{Service: fmt.Sprintf("service-%02d", j), TargetPort: 1})
		}
		if i == 49 {
			port, err := strconv.ParseUint(s.target("last", 200).port, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			r.ServiceExposures[19].TargetPort = uint32(port)
			r.ServiceExposures[19].ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: "/"}
		}
		if _, err := client.API().CreateSandbox(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s.agent("box-49")
	s.healthy("box-49", "service-19")
	s.run("many.test.mjs")
}
