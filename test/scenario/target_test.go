// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/test/rig"
)

// target is what listens on a port, or does not.
type target struct {
	rig.Target
	upTo time.Duration // Took is anything up to it, unless it is zero
	// plays is a list of what each attempt of the timer finds; attempts off the
	// timer find what the next one will. After its end the last one goes on.
	plays []rig.Target
}

// aim tells what an attempt finds.
func (s *stage) aim(port uint16, extra bool) rig.Target {
	t := s.targets[port]
	if t == nil {
		return rig.Target{} // refuses
	}
	found := t.Target
	if len(t.plays) > 0 {
		found = t.plays[0]
		if !extra && len(t.plays) > 1 {
			t.plays = t.plays[1:]
		}
	}
	if t.upTo > 0 {
		found.Took += time.Duration(s.chance.Int64N(int64(t.upTo - found.Took)))
	}
	return found
}

// soon is how long a target takes that has nothing to wait for.
const soon = 2 * time.Millisecond

func answers(code uint16, took time.Duration) rig.Target {
	return rig.Target{Reason: probe.OK, Code: code, Took: took}
}

func fails(r probe.Reason) rig.Target {
	if r == probe.Timeout {
		return rig.Target{Reason: r, Took: probe.AttemptTimeout}
	}
	return rig.Target{Reason: r, Took: soon}
}

// letters are the parts that "plays" can be made of.
var letters = map[rune]rig.Target{
	'p': answers(200, soon),
	'f': answers(500, soon),
	'r': fails(probe.Refused),
	'h': fails(probe.Timeout),
	'i': fails(probe.NoResources),
}
