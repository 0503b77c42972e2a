// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package settings fills a daemon's flags from where they were not given: the
// environment, then a YAML file, then the default. A key that no flag has, and
// a value that its flag does not take, are errors that name the source; a
// daemon never starts with half of its configuration understood.
package settings
