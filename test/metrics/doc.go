// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics tests what operators scrape: the real binaries under a real
// Prometheus, and docs/metrics.md against what they serve. Run it with make
// e2e-metrics.
package metrics
