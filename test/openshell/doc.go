// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package openshell points the published Python package of OpenShell at a real
// gateway with real sandboxes: every class and every call of it. Each call
// succeeds, or is answered UNIMPLEMENTED with what is missing; none hangs.
//
// client.py is what runs in the package's interpreter; requirements.txt pins
// the package and what it needs, which the first run installs below .tools.
// docs/openshell.md is the result as a page: the suite fails when the page is
// another, and writes it with -update. Run it with make e2e-openshell.
package openshell
