// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandboxctl is the gateway's command line: it makes sandboxes, exposes
// their services and says how they are.
//
// It finds a gateway by flags, else the environment, else the client.json that
// a gateway leaves in its state directory. The token and the authority in
// client.json are for the address in it and are sent to no other.
//
// Standard output carries the result and nothing else; everything else goes to
// standard error. Every text that came from the gateway is escaped before it
// is written, in tables, in JSON and YAML, and in errors. Exit codes: 0 done,
// 1 failed, 2 usage (also a value that the gateway refuses as invalid), 3 not
// found, 4 timed out.
//
// One file per command, sandbox_create.go and so on, each of them a function of
// *app; app.go holds what they share. Nothing runs beside the command itself,
// except the connections that service forward carries.
package main
