// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance holds every client to the same behaviour: the SDKs for
// Go, Rust and TypeScript, and the command line. It has no code outside of its
// tests, and promises nothing to importers.
//
// Three things are checked in and held here. api/testdata has golden vectors:
// messages as bytes and as protobuf JSON, and what an SDK reads in them.
// api/inventory.txt lists every message, field, number, type and enum of the
// public API, so that no change of the wire goes unseen. cases.json is the list
// of behaviours that each client is driven through, against a real gateway and
// a real agent; README.md is the protocol of the drivers.
//
// The tests run one after the other, each client with sandboxes of its own on
// one gateway.
package conformance
