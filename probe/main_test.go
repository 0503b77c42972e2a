// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) {
	if port := os.Getenv(childPort); port != "" {
		attemptInChild(port)
		return
	}
	testkit.Main(m)
}
