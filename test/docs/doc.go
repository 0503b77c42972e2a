// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs tests what the documents tell people to do. The quick start is
// run as it stands, on the real binaries, and its output is held to the page;
// every command line of every page has to be one that the binaries take; and
// links lead somewhere. Run it with make e2e-docs.
//
// The tests change nothing outside of temporary directories, but for bin/, which
// the quick start builds.
package docs
