// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

// Relay is a connection to a service of a sandbox, and counted.
type Relay struct {
	*mux.Relay
	metrics *Metrics
	counted sync.Once // the result
	ended   sync.Once
}

var _ mux.Duplex = (*Relay)(nil)

// OpenRelay opens a connection to a service of a sandbox, by the service's name.
// Without a live session the error is mux.ErrSessionClosed; the others are
// those of mux.Session.OpenRelay, and those of the agent's answer come from the
// first Read.
func (s *Server) OpenRelay(ctx context.Context, sandboxID, service string) (*Relay, error) {
	l := s.holder(sandboxID)
	if l == nil {
		s.cfg.Metrics.relayed(mux.ErrSessionClosed)
		return nil, fmt.Errorf("the sandbox has no session: %w", mux.ErrSessionClosed)
	}
	r, err := l.mux.OpenRelay(ctx, service)
	if err != nil {
		s.cfg.Metrics.relayed(err)
		return nil, err
	}
	s.cfg.Metrics.relaysOpen.Inc()
	return &Relay{Relay: r, metrics: s.cfg.Metrics}, nil
}

// Await waits for the agent's answer.
func (r *Relay) Await() error {
	err := r.Relay.Await()
	r.counted.Do(func() { r.metrics.relayed(err) })
	return err
}

// Read reads what the service sent, after the answer of the agent.
func (r *Relay) Read(p []byte) (int, error) {
	if err := r.Await(); err != nil {
		return 0, err
	}
	return r.Relay.Read(p)
}

// Close ends the relay, as that of mux does.
func (r *Relay) Close() error {
	r.end()
	return r.Relay.Close()
}

// Reset ends the relay at once.
func (r *Relay) Reset() error {
	r.end()
	return r.Relay.Reset()
}

func (r *Relay) end() { r.ended.Do(r.metrics.relaysOpen.Dec) }

// relayResults are the labels of what became of a relay.
var relayResults = map[mux.RelayStatus]string{
	mux.RelayAccepted:       "accepted",
	mux.RelayUnknownService: "unknown_service",
	mux.RelayRefused:        "refused",
	mux.RelayTimeout:        "timeout",
	mux.RelayTooMany:        "too_many",
	mux.RelayStopping:       "stopping",
	mux.RelayForbidden:      "forbidden",
	mux.RelayUnreachable:    "unreachable",
}

// Results that are not answers of an agent.
const (
	relayNoSession = "no_session"
	relayNoAnswer  = "no_answer"
	relayBroken    = "broken"
)

func relayResult(err error) string {
	refused, ok := errors.AsType[*mux.RelayError](err)
	switch {
	case err == nil:
		return relayResults[mux.RelayAccepted]
	case ok && relayResults[refused.Status] != "":
		return relayResults[refused.Status]
	case errors.Is(err, mux.ErrTooManyStreams):
		return relayResults[mux.RelayTooMany]
	case errors.Is(err, mux.ErrSessionClosed):
		return relayNoSession
	case errors.Is(err, mux.ErrRelayNoAnswer):
		return relayNoAnswer
	}
	return relayBroken
}

func (m *Metrics) relayed(err error) { m.relays.WithLabelValues(relayResult(err)).Inc() }
