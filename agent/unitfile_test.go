// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/obs"
)

// systemd kills an agent that was asked to stop only if it hangs: the budget of
// the unit file is larger than all that leaving may take.
func TestUnitFileLeavesTimeToStop(t *testing.T) {
	content, err := os.ReadFile("../systemd/sandbox-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^TimeoutStopSec=([0-9]+)$`).FindSubmatch(content)
	if m == nil {
		t.Fatal("the unit file has no line TimeoutStopSec=SECONDS")
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	const margin = 3 * time.Second
	if got, need := time.Duration(n)*time.Second, lastReport+relayGrace+obs.ShutdownTimeout+margin; got < need {
		t.Errorf("TimeoutStopSec is %v; last report, grace of the relays, ops listener and margin are %v", got, need)
	}
}
