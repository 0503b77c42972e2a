// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package probe observes HTTP services on the loopback of the machine it runs
// in: one attempt, the judgement of a sequence of attempts, and the schedule
// that makes them.
//
//   - [HTTP.Attempt] is one probe of one [Target]: a new connection to
//     127.0.0.1 or ::1, one request, the response's header section, and no
//     more than [AttemptTimeout] for all of it. It is safe for concurrent use, keeps
//     nothing open and leaves no goroutine behind.
//   - [Hysteresis] and [Judge] turn attempts into a state. They are pure: no
//     clock, no lock; their owner serialises the calls.
//   - [Scheduler] owns when attempts are made. All services are attempted in
//     one burst (a round) every [Interval]; no attempt overlaps another of the
//     same service, and none waits for a hanging one of another service. Its
//     [Sink] is called from one goroutine, in the order in which things
//     happened, and owns what it is given. [Planner] is the same without the
//     loop and the clock, for simulations.
//
// An attempt ends as a pass, a fail or inconclusive. Inconclusive means that
// this process could not observe: it had no descriptor, it was not running, it
// was suspended, or it has a fault. That is never held against a service.
//
// Nothing that a service sends is kept: an [Attempt] holds closed enumerations,
// a status code, an address of the loopback and instants.
package probe
