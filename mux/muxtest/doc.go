// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package muxtest gives tests sessions without a network, gateways on real
// sockets, and connections that fail on demand. What it starts ends with the
// test.
package muxtest
