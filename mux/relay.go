// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// RelayStatus is the agent's answer to a relay stream: its first byte on it.
type RelayStatus byte

// The answers. Their numbers are on the wire.
const (
	RelayAccepted       RelayStatus = 1 // what follows is the service's
	RelayUnknownService RelayStatus = 2 // not in the agent's desired state
	RelayRefused        RelayStatus = 3 // nothing listens on the service's port
	RelayTimeout        RelayStatus = 4 // the port did not accept a connection in time
	RelayTooMany        RelayStatus = 5 // the sandbox has MaxRelays open
	RelayStopping       RelayStatus = 6 // the agent is about to leave
	RelayForbidden      RelayStatus = 7 // the port is the agent's own
	RelayUnreachable    RelayStatus = 8 // the port could not be dialled for another reason
)

// MaxRelays is how many relays a sandbox has open at most.
const MaxRelays = DefaultMaxStreams

// RelayAnswerTimeout is how long a gateway waits for the agent's answer. The
// agent gives its dial a second of it.
const RelayAnswerTimeout = 1750 * time.Millisecond

// String returns the word for a status: "Accepted", "UnknownService", … or
// "Unknown" for a number that has no meaning.
func (s RelayStatus) String() string {
	names := [...]string{
		"Unknown", "Accepted", "UnknownService", "Refused", "Timeout", "TooMany", "Stopping", "Forbidden", "Unreachable",
	}
	if int(s) >= len(names) {
		s = 0
	}
	return names[s]
}

// RelayError is the agent's refusal of a relay.
type RelayError struct{ Status RelayStatus }

// Error returns the word for the status.
func (e *RelayError) Error() string { return "mux: the agent refused the relay: " + e.Status.String() }

// ErrRelayNoAnswer is returned by a Relay whose agent did not answer within
// RelayAnswerTimeout.
var ErrRelayNoAnswer = errors.New("mux: the agent did not answer the relay in time")

// Relay is the gateway's end of a relayed connection: a connection to a service
// as whoever dials it himself would have it.
//
// It may be written to at once: what is written before the agent has answered
// travels behind the opening, and nobody reads it if the agent refuses. The
// first Read waits for the answer.
type Relay struct {
	*Stream
	opened time.Time

	answering sync.Mutex // of whoever waits for the answer

	mu       sync.Mutex
	answered bool
	failed   error     // why there is no relay, once answered
	deadline time.Time // of reading, as the caller set it
}

var _ Duplex = (*Relay)(nil)

// OpenRelay opens a connection to a service of the agent's sandbox, named as in
// the agent's desired state. It returns once the opening is under way; its
// errors are those of Open, and ErrRelayNoAnswer if the connection to the agent
// did not take the opening in time.
func (s *Session) OpenRelay(ctx context.Context, service string) (*Relay, error) {
	opened := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, RelayAnswerTimeout, ErrRelayNoAnswer)
	defer cancel()
	st, err := s.Open(ctx, KindRelay, []byte(service))
	if err != nil {
		return nil, err
	}
	return &Relay{Stream: st, opened: opened}, nil
}

// Await waits for the agent's answer. It returns nil if the relay is accepted,
// *RelayError, ErrRelayNoAnswer, or what broke the stream; always the same.
func (r *Relay) Await() error {
	r.mu.Lock()
	answered, failed := r.answered, r.failed
	r.mu.Unlock()
	if answered {
		return failed
	}
	r.answering.Lock()
	defer r.answering.Unlock()
	if r.mu.Lock(); r.answered {
		defer r.mu.Unlock()
		return r.failed
	}
	limit := r.opened.Add(RelayAnswerTimeout)
	early := !r.deadline.IsZero() && r.deadline.Before(limit)
	_ = r.Stream.SetReadDeadline(r.until(limit))
	r.mu.Unlock()
	var answer [1]byte
	_, err := io.ReadFull(r.Stream, answer[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, os.ErrDeadlineExceeded) && (early || time.Now().Before(limit)) {
		return err // the caller's own deadline: there may be an answer yet
	}
	r.answered, r.failed = true, fault(RelayStatus(answer[0]), err)
	_ = r.Stream.SetReadDeadline(r.deadline)
	return r.failed
}

func fault(answer RelayStatus, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrRelayNoAnswer
	case err == io.EOF:
		return fmt.Errorf("mux: relay ended without an answer: %w", io.ErrUnexpectedEOF)
	case err != nil:
		return err
	case answer != RelayAccepted:
		return &RelayError{answer}
	}
	return nil
}

// until is the earlier one of the caller's deadline and t.
func (r *Relay) until(t time.Time) time.Time {
	if !r.deadline.IsZero() && r.deadline.Before(t) {
		return r.deadline
	}
	return t
}

// Read reads what the service sent, after the answer of the agent.
func (r *Relay) Read(p []byte) (int, error) {
	if err := r.Await(); err != nil {
		return 0, err
	}
	return r.Stream.Read(p)
}

// SetDeadline sets both deadlines.
func (r *Relay) SetDeadline(t time.Time) error {
	if err := r.SetReadDeadline(t); err != nil {
		return err
	}
	return r.SetWriteDeadline(t)
}

// SetReadDeadline is that of Stream; the agent's answer has its own in addition.
func (r *Relay) SetReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = t
	if !r.answered {
		t = r.until(r.opened.Add(RelayAnswerTimeout))
	}
	return r.Stream.SetReadDeadline(t)
}

// Answer sends the agent's answer to a relay stream, once and before all else.
// It does not wait behind what other relays have to send. After anything but
// RelayAccepted the stream is to be closed.
func (s *Stream) Answer(status RelayStatus) error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	closed := s.state.closed
	s.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	return s.begin([]byte{byte(status)})
}
