// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtime boots sandboxes for a gateway, behind one small interface.
//
// # Drivers
//
// external writes DIR/ID/token for whoever boots the sandbox, and nothing else.
//
// local boots a sandbox on this machine from Linux namespaces: network (with a
// loopback of its own), PID, mount, UTS and IPC, and a user namespace when the
// gateway is not root. It needs nothing installed, and Linux 5.12. The agent is
// process 1 inside, with the COMMAND as its child.
//
// local is for development. It is no security boundary: the sandbox shares the
// machine's files, its user and its kernel, without limits on CPU, memory or
// disk; run by root, what is inside is root. The state directory is covered, so
// that the admin token and the CA key are not in plain sight, which stops
// accidents and nobody determined.
//
// # Files of a local sandbox
//
//	DIR/ID/credentials/token  the only file of the state directory that the
//	                          sandbox sees, beside the supervisor socket
//	DIR/ID/log                stdout and stderr of agent and COMMAND; emptied at
//	                          each start, otherwise as large as they make it
//	DIR/ID/process            pid, start time and boot id; the exit code later
//
// Files have mode 0600, directories 0700. The token's and the socket's
// directories are shown rather than the files, read-only, since both files are
// replaced by new ones during the life of a sandbox. For that reason a socket
// below the state directory must have a directory of its own.
//
// # How a local sandbox starts
//
// The gateway clones its own executable with InitArg into the new namespaces,
// writes the process file, and only then sends the order: a gateway that dies
// in between leaves a second stage that reads no order and ends. The stage sets
// the host name, brings up lo, makes mounts private, mounts /proc, covers the
// state directory and executes the agent. Start returns when that has happened,
// or with the step that failed and the kernel feature that it needs.
//
// The agent gets PATH and HOME of the gateway, the log level and the
// environment of the Spec; never the gateway's other variables, and no secret
// in environment or arguments.
//
// # Who owns what
//
// A sandbox belongs to no gateway process: it has a session of its own and
// outlives even a SIGKILL of the gateway (under systemd: KillMode=process).
// Every process is held by a pidfd, opened before its start time and boot id are
// compared with the file, so a reused pid is neither adopted nor signalled. One
// goroutine per running sandbox is parked in the netpoller until it ends. A
// sandbox that the gateway did not start itself ends with CodeUnknown; the
// agent also reports the exit code over its session.
//
// # Concurrency
//
// Drivers are safe for concurrent use; calls for one sandbox take turns, except
// RenewToken, which waits for nobody. OnExit runs without locks held, once per
// end that nobody asked for, in no order between sandboxes.
package runtime
