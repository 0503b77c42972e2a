// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/obs"
)

// seconds returns a setting of the unit file that is a number of seconds.
func seconds(t *testing.T, unit, name string) time.Duration {
	t.Helper()
	content, err := os.ReadFile("../systemd/" + unit)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `=([0-9]+)$`).FindSubmatch(content)
	if m == nil {
		t.Fatalf("%s has no line %s=SECONDS", unit, name)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

// systemd kills a gateway that drains only if it hangs: the budget of the unit
// file is larger than all that a drain may take.
func TestUnitFileLeavesTimeToDrain(t *testing.T) {
	const margin = 5 * time.Second // store, sessions
	need := DefaultConfig().DrainGrace + StopTimeout + obs.ShutdownTimeout + margin
	if got := seconds(t, "sandbox-gateway.service", "TimeoutStopSec"); got < need {
		t.Errorf("TimeoutStopSec is %v; grace, graceful stop and margin are %v", got, need)
	}
}
