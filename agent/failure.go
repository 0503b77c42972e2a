// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/report"
)

// failure is why there is no session, or none any more.
type failure uint8

const (
	failedOther failure = iota
	failedClock
	failedCertificate
	failedTLS
	failedUnreachable
	failedTimeout
	failedAnswer
	failedToken
	failedUnauthorized
	failedForbidden
	failedConflict
	failedUnavailable
	failedRefused
	failedAck
	failedLost
	failedSuspended
	numFailures
)

// failureNames are the values of a label.
var failureNames = [numFailures]string{
	"other", "clock", "certificate", "tls", "unreachable", "timeout", "bad_answer", "token", "unauthorized", "forbidden",
	"conflict", "unavailable", "refused", "no_acknowledgement", "lost", "suspended",
}

func (f failure) String() string { return failureNames[f] }

// loud reports whether somebody has to do something about it: time alone does
// not heal it, or not soon.
func (f failure) loud() bool {
	switch f {
	case failedClock, failedCertificate, failedToken, failedUnauthorized, failedForbidden, failedConflict:
		return true
	}
	return false
}

// classify tells why a dial failed or, if there was a session, why that ended.
func classify(err error, session bool) failure {
	if refused, ok := errors.AsType[*mux.RefusedError](err); ok {
		return ofStatus(refused.Status)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return failedClock // not valid yet, or not any more: one of the two clocks is wrong, or the renewal is
	}
	switch {
	case errors.Is(err, errSuspended):
		return failedSuspended
	case errors.Is(err, report.ErrNoAck):
		return failedAck
	case session:
		return failedLost
	case is[*tls.CertificateVerificationError](err):
		return failedCertificate
	case is[tls.AlertError](err), is[tls.RecordHeaderError](err):
		return failedTLS
	case errors.Is(err, mux.ErrToken):
		return failedToken // before the file's own error, whatever that is
	case errors.Is(err, mux.ErrBadResponse):
		return failedAnswer
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return failedTimeout
	case is[*net.OpError](err):
		return failedUnreachable
	}
	return failedOther
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func ofStatus(status int) failure {
	switch status {
	case http.StatusUnauthorized:
		return failedUnauthorized
	case http.StatusForbidden:
		return failedForbidden
	case http.StatusConflict:
		return failedConflict
	case http.StatusServiceUnavailable:
		return failedUnavailable
	}
	return failedRefused
}

// failures counts by reason.
type failures [numFailures]atomic.Uint64
