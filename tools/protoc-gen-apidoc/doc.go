// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command protoc-gen-apidoc writes the API reference, docs/api.md, from the
// protos and their comments. It is a plugin of protoc and buf.
//
// What it writes depends on the protos alone, so that a second run changes
// nothing. Every package, call, message, field and enum of the protos is in it;
// one without a comment is an error, and so is a package without a part.
package main
