// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package browser opens the status page and services' URLs in a real Chromium,
// in front of the real binaries.
//
// Go starts the gateway, agents and targets, and is asked over HTTP to make
// things happen (see stage); the tests themselves are scripts for node's test
// runner, *.test.mjs, each with a stage of its own. Needs what the group
// browser of .ci/setup installs, and the packages of package.json.
package browser
