// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// watchEvent is one line of a watch in JSON.
type watchEvent struct {
	// Time on this machine's clock.
	Time string `json:"time"`
	// Event is "service", "removed", "complete", "disconnected" or "connected".
	Event string `json:"event"`
	// Service is protobuf JSON of openshell.v1.ServiceEndpointResponse.
	Service      json.RawMessage `json:"service,omitempty"`
	SandboxPhase string          `json:"sandboxPhase,omitempty"`
	// Error is why the gateway is not heard.
	Error string `json:"error,omitempty"`
}

// watchLines shows a watch as events.
type watchLines struct {
	app       *app
	complete  bool
	connected bool
}

func (l *watchLines) tick() error { return nil }

func (l *watchLines) update(u sandbox.ServiceUpdate) error {
	if u.Connected && l.complete && !l.connected {
		if err := l.write(watchEvent{Event: "connected"}); err != nil {
			return err
		}
	}
	for _, s := range u.Removed {
		if err := l.service("removed", s); err != nil {
			return err
		}
	}
	for _, s := range u.Changed {
		if err := l.service("service", s); err != nil {
			return err
		}
	}
	if u.Connected && !l.complete {
		l.complete, l.connected = true, true
		return l.write(watchEvent{Event: "complete"})
	}
	was := l.connected
	if l.connected = u.Connected; was && !u.Connected {
		return l.write(watchEvent{Event: "disconnected", Error: errorText(u.Err)})
	}
	return nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (l *watchLines) service(event string, s sandbox.WatchedService) error {
	b, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(s.Service)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return l.write(watchEvent{Event: event, Service: b, SandboxPhase: s.Phase.String()})
}

func (l *watchLines) write(e watchEvent) error {
	e.Time = l.app.now().UTC().Format(time.RFC3339Nano)
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	out, err := "", error(nil)
	if l.app.flags.output.value == formatYAML {
		out, err = yamlText(b)
		out = "---\n" + out
	} else {
		out, err = jsonLine(b)
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if _, err := io.WriteString(l.app.stdout, out); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
