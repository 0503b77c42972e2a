// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"time"
)

// The numbers of the health contract. They are no options: the gateway's
// answer, the SDKs' ageing and the reports rely on them.
const (
	// Interval is the time between two rounds.
	Interval = 5 * time.Second
	// AttemptTimeout bounds one attempt: dial, write and final response headers.
	AttemptTimeout = time.Second
	// FailThreshold is how many fails in a row make Unhealthy.
	FailThreshold = 3
	// StaleAfter is the age at which a conclusive attempt says nothing more.
	StaleAfter = 15 * time.Second
	// MaxHeaderBytes bounds the header sections of one attempt, interim ones
	// included.
	MaxHeaderBytes = 64 << 10
	// MaxServices bounds the services of one sandbox. Whoever accepts a list
	// enforces it; the scheduler does not.
	MaxServices = 256
)

// Outcome is what an attempt says of its service.
type Outcome uint8

// The outcomes. Their numbers are those of supervisor.v1.Outcome.
const (
	NoOutcome    Outcome = 0 // there was no attempt
	Pass         Outcome = 1
	Fail         Outcome = 2
	Inconclusive Outcome = 3 // this process could not observe
)

// String returns "None", "Pass", "Fail", "Inconclusive" or, for any other
// number, "Unknown".
func (o Outcome) String() string {
	names := [...]string{"None", "Pass", "Fail", "Inconclusive"}
	if int(o) >= len(names) {
		return "Unknown"
	}
	return names[o]
}

// Reason is why an attempt has its outcome.
type Reason uint8

// The reasons. Their numbers are those of supervisor.v1.Reason.
const (
	NoReason        Reason = 0  // there was no attempt
	OK              Reason = 1  // passed
	Refused         Reason = 2  // no listener on either loopback address
	Timeout         Reason = 3  // no final response headers within AttemptTimeout
	Reset           Reason = 4  // the connection was reset
	Closed          Reason = 5  // closed before the header section ended
	NotHTTP         Reason = 6  // what came was not an HTTP/1 response
	HeadersTooLarge Reason = 7  // more than MaxHeaderBytes
	BadStatus       Reason = 8  // readiness answered outside 200..299
	Unreachable     Reason = 9  // not reachable for another reason
	NoResources     Reason = 10 // inconclusive: no descriptor, port or memory for a socket
	Late            Reason = 11 // inconclusive: this process was not running in time
	Suspended       Reason = 12 // inconclusive: this process stood still for long
	Internal        Reason = 13 // inconclusive: a fault of this process, or the attempt was given up
)

// String returns the contract's word for r: "None", "OK", "Refused",
// "Timeout", … or, for any other number, "Unknown".
func (r Reason) String() string {
	names := [...]string{
		"None", "OK", "Refused", "Timeout", "Reset", "Closed", "NotHTTP", "HeadersTooLarge",
		"BadStatus", "Unreachable", "NoResources", "Late", "Suspended", "Internal",
	}
	if int(r) >= len(names) {
		return "Unknown"
	}
	return names[r]
}

// Attempt is one probe of one target. The zero Attempt means that there was
// none.
type Attempt struct {
	Outcome Outcome
	Reason  Reason
	// Code is the final HTTP status, 100..999; 0 if the header section did not
	// arrive whole.
	Code uint16
	// Addr is the loopback address that accepted the connection; the zero Addr
	// if none did.
	Addr netip.Addr
	// Start and End carry the monotonic clock. End may lie beyond
	// Start+AttemptTimeout if this process was late.
	Start, End time.Time
	// Latency is from Start to the verdict.
	Latency time.Duration
}

// Observed is the instant that the attempt speaks of: its end, but no later
// than its deadline.
func (a Attempt) Observed() time.Time {
	if deadline := a.Start.Add(AttemptTimeout); a.End.After(deadline) {
		return deadline
	}
	return a.End
}

func (a Attempt) conclusive() bool { return a.Outcome == Pass || a.Outcome == Fail }
