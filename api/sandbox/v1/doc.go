// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxv1 is the generated code of what the published service API
// lacks: watching services, waiting for one, and what its health was. Edit
// watch.proto and run make generate.
package sandboxv1
