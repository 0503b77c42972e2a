// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// watchTable shows a watch as a table that is written over.
type watchTable struct {
	app   *app
	watch *sandbox.ServiceWatch
	all   bool

	connected bool
	lost      error
	lines     int // of what is on the terminal
}

func (t *watchTable) update(u sandbox.ServiceUpdate) error {
	t.connected, t.lost = u.Connected, u.Err
	return t.draw()
}

func (t *watchTable) tick() error { return t.draw() }

func (t *watchTable) draw() error {
	width, _ := t.app.terminal(t.app.stdout)
	p := &page{width: width, colour: t.app.colour(t.app.stdout), clip: true}
	rows := 0
	if h := t.app.height(t.app.stdout); h > 0 {
		rows = max(h-watchFrame, 1)
	}
	drawWatch(p, watched{
		services: t.watch.Services(), all: t.all, where: t.app.whereWords(t.all), connected: t.connected, lost: t.lost, rows: rows,
	}, time.Now()) // the clock of Checked
	out := p.out.String()
	over := ""
	if t.lines > 0 {
		over = "\x1b[" + strconv.Itoa(t.lines) + "A" // up to the first line
	}
	t.lines = strings.Count(out, "\n")
	// Each line ends what is left of the one before, and the page what is left
	// below it: nothing flickers.
	out = over + strings.ReplaceAll(out, "\n", "\x1b[K\n") + "\x1b[J"
	if _, err := io.WriteString(t.app.stdout, out); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// watchFrame is how many lines a watch needs beside its services: the summary,
// the heads, two remarks, and the line of the cursor.
const watchFrame = 5

// watched is what a watch knows.
type watched struct {
	services  []sandbox.WatchedService
	all       bool
	where     string // " in workspace blue"
	connected bool
	lost      error // why it is not connected
	rows      int   // at most; 0: any
}

// drawWatch draws the table of a watch.
func drawWatch(p *page, w watched, now time.Time) {
	p.line(summary(w))
	if len(w.services) > 0 {
		columns := []column{
			{"SANDBOX", 0}, {"SERVICE", 0}, {"PORT", 4}, {"HEALTH", 0}, {"REASON", 2}, {"AGE", 1}, {"PHASE", 3}, {"URL", 5},
		}
		shown := w.services
		if w.rows > 0 && len(shown) > w.rows {
			shown = shown[:w.rows]
		}
		var rows [][]cell
		for _, s := range shown {
			e, h := s.Service.GetEndpoint(), s.Health()
			rows = append(rows, []cell{
				val(e.GetSandbox()), val(e.GetName()), val(portWords(e)), toned(healthWords(h)), val(attemptWords(h)),
				val(ageWords(s.Checked, now)), toned(phaseWords(&openshellv1.SandboxStatus{Phase: s.Phase})), val(s.Service.GetUrl()),
			})
		}
		if w.all {
			columns = append([]column{{"WORKSPACE", 0}}, columns...)
			for i, s := range shown {
				rows[i] = append([]cell{val(s.Service.GetEndpoint().GetMetadata().GetWorkspace())}, rows[i]...)
			}
		}
		p.table(columns, rows)
		if n := len(w.services) - len(shown); n > 0 {
			p.line(fmt.Sprintf("… and %d more: make the window higher, or name a sandbox", n))
		}
	}
	if !w.connected {
		why := ""
		if w.lost != nil {
			why = ": " + shortError(w.lost)
		}
		p.grid([][]cell{{toned("No connection to the gateway, trying again"+why, bad)}})
	}
}

// summary counts services by their states.
func summary(w watched) string {
	var n [3]int
	for _, s := range w.services {
		n[s.Health().State]++
	}
	line := plural(len(w.services), "service") + w.where
	var parts []string
	for _, state := range []sandbox.HealthState{sandbox.HealthHealthy, sandbox.HealthUnhealthy, sandbox.HealthUnknown} {
		if n[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n[state], state))
		}
	}
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	return line
}

// shortError is what the connection or the gateway said, without the names of
// the layers that said it.
func shortError(err error) string {
	if call, ok := errors.AsType[*sandbox.Error](err); ok && call.Message != "" {
		return call.Message
	}
	return err.Error()
}
