// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package rig is a whole system in virtual time: one sandbox, its agents, the
// link and a gateway, made of the real decisions (probe, report, report/wire,
// gateway/session, gateway/health) without a goroutine, a socket or a clock that
// runs. Models and scenarios drive it.
//
// Time passes in Pass alone, and everything that is due happens in the order of
// its instants; what is due at one instant happens in the order in which it was
// asked for. So a run depends on nothing but the calls that were made. Each
// machine has clocks of its own, which can be stepped, and can be frozen or
// suspended.
//
// The rig itself decides nothing that the contract is about: where a decision
// belongs to a loop that cannot run here (a timer, a look-up in the store), the
// rig does the obvious, and the tests of that loop hold it to that. What it
// plays are the sandbox's targets, the store, and the accidents. A World and
// its parts are for one goroutine.
package rig
