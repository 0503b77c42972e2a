// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package packages looks at what packaging/build has made: are the binaries
// static and small, is in every package what belongs there, does Debian's
// checker have nothing to say, does a second build give the same bytes. It
// changes nothing; make test-packages builds both directories first.
package packages
