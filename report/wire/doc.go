// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire converts reports and the desired state between the agent's
// types and the messages of supervisor.v1.
//
// Encode and Decode are pure. Decode reads bytes that a sandbox chose: it
// never fails on a value it does not know but reads it as the one that claims
// least (an unknown state is UNKNOWN, an unknown outcome inconclusive), and
// fails only on a report that breaks a limit. Durations are rounded so that
// an observation never looks younger than it is, except that an age is not
// rounded beyond the age of the acknowledgement that it is measured by: what
// came after that acknowledgement reads so, what came before it does, too.
package wire
