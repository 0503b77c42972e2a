// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package openshellv1 is the generated code of the service API for users. Its
// names and numbers are those of the published OpenShell v1 API; health and
// readiness are additive. Edit openshell.proto and run make generate.
package openshellv1
