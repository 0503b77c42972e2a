// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/rand/v2"
	"time"

	"github.com/sandbox-agent/sandbox-agent/probe"
	"github.com/sandbox-agent/sandbox-agent/test/rig"
)

// generator makes one random history.
type generator struct {
	*rand.Rand
	scheduled bool
	fine      bool // instants are not whole milliseconds
	// mood is the chance, in percent, that an attempt passes, and that one that
	// does not is inconclusive.
	passes, blind int
	history       []op
}

// generate returns the history of a seed.
func generate(seed uint64, scheduled bool) []op {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 2)), scheduled: scheduled}
	g.fine = g.IntN(4) == 0
	g.mood()
	g.add(op{kind: expose, name: "web", yes: g.coin()})
	if g.coin() {
		g.add(op{kind: expose, name: "", yes: g.coin()})
	}
	g.aim()
	g.add(op{kind: start}, op{kind: connect}, op{kind: pass, d: g.moment()})
	for range 5 + g.IntN(40) {
		g.step()
	}
	return g.history
}

func (g *generator) add(ops ...op) { g.history = append(g.history, ops...) }

func (g *generator) coin() bool { return g.IntN(2) == 0 }

func (g *generator) name() string { return []string{"web", "web", "web", "", "api"}[g.IntN(5)] }

// who is mostly the newest agent.
func (g *generator) who() int {
	if g.IntN(6) == 0 {
		return 1
	}
	return 0
}

func (g *generator) one(list ...time.Duration) time.Duration { return list[g.IntN(len(list))] }

// moment is a short time.
func (g *generator) moment() time.Duration {
	if g.fine {
		return time.Duration(g.IntN(20_000)) * time.Microsecond
	}
	return g.one(0, time.Millisecond, 2*time.Millisecond, 40*time.Millisecond)
}

// while is any time.
func (g *generator) while() time.Duration {
	if g.fine {
		return time.Duration(g.IntN(8_000_000)) * time.Microsecond
	}
	return g.one(time.Millisecond, 60*time.Millisecond, 99*time.Millisecond, 100*time.Millisecond,
		time.Second, 3*time.Second, 5*time.Second, 10*time.Second, 14*time.Second, 15*time.Second, 16*time.Second, time.Minute)
}

func (g *generator) mood() {
	g.passes = []int{100, 95, 50, 5, 0}[g.IntN(5)]
	g.blind = []int{0, 10, 60, 100}[g.IntN(4)]
}

// result is what an attempt finds.
func (g *generator) result() rig.Target {
	took := g.moment()
	if g.IntN(100) < g.passes {
		return rig.Target{Reason: probe.OK, Code: []uint16{200, 204, 299}[g.IntN(3)], Took: took}
	}
	if g.IntN(100) < g.blind {
		blind := []probe.Reason{probe.NoResources, probe.Late, probe.Suspended, probe.Internal}
		return rig.Target{Reason: blind[g.IntN(len(blind))], Took: took}
	}
	switch g.IntN(6) {
	case 0: // a fail for a readiness check, a pass otherwise
		return rig.Target{Reason: probe.OK, Code: []uint16{199, 300, 404, 500}[g.IntN(4)], Took: took}
	case 1:
		return rig.Target{Reason: probe.Timeout, Took: g.one(time.Second, time.Second, 1200*time.Millisecond, 1300*time.Millisecond)}
	case 2:
		return rig.Target{Reason: probe.Reset, Took: took}
	case 3:
		return rig.Target{Reason: probe.NotHTTP, Took: took}
	default:
		return rig.Target{Reason: probe.Refused, Took: took}
	}
}

func (g *generator) aim() {
	if g.scheduled {
		for _, name := range []string{"web", "", "api"} {
			g.add(op{kind: aim, name: name, target: g.result()})
		}
	}
}

// step adds something that happens.
func (g *generator) step() {
	switch n := g.IntN(40); {
	case n < 14:
		g.rounds(1 + g.IntN(5))
	case n < 18:
		g.add(op{kind: pass, d: g.while()})
	case n < 21:
		g.add(op{kind: readAged, name: g.name(), d: g.one(-time.Millisecond, 0, 0, time.Millisecond)})
	case n < 22:
		g.add(op{kind: readLost, d: g.one(-time.Millisecond, 0, time.Millisecond)})
	case n < 24:
		g.add(op{kind: read})
	case n < 26:
		g.mood()
		g.aim()
	case n < 29:
		g.configuration()
	case n < 34:
		g.link()
	case n < 37:
		g.lives()
	case n < 38:
		g.race()
	default:
		g.sandbox()
	}
}

// race adds what two that do not know of each other do at one time.
func (g *generator) race() {
	soon := op{kind: pass, d: g.moment()}
	switch g.IntN(3) {
	case 0: // a displaced agent does not know it, and reports on
		g.add(op{kind: cleanUp, d: g.one(time.Second, 20*time.Second)}, op{kind: hold, yes: false})
		if g.coin() {
			g.add(op{kind: start, agent: 1}, op{kind: connect}, soon)
		} else {
			g.add(op{kind: delay, yes: true, d: g.one(time.Second, 4*time.Second)}, op{kind: round}, op{kind: connect}, soon)
		}
		for range 1 + g.IntN(3) {
			g.add(op{kind: attempt, agent: 1, name: "web", target: g.result()}, op{kind: pass, d: time.Second}, op{kind: round, agent: 1}, soon, op{kind: read})
		}
	case 1: // the last report is not acknowledged, and others follow it
		g.add(op{kind: hold, yes: false}, op{kind: leave, yes: g.coin()}, soon)
		g.rounds(1)
		g.add(op{kind: release}, soon)
		g.rounds(1)
		g.add(op{kind: connect}, soon, op{kind: read})
	case 2: // a handshake of the life before comes when the session of this one is lost
		g.add(op{kind: connect, d: g.one(4*time.Second, 9*time.Second)}, op{kind: stop}, op{kind: stopped}, op{kind: begin},
			op{kind: start, agent: 1}, op{kind: connect}, op{kind: pass, d: time.Second}, op{kind: sever, yes: true, also: true},
			op{kind: pass, d: g.while()}, op{kind: read}, op{kind: readLost, d: -time.Millisecond})
	}
}

// rounds adds attempts as the timer makes them, and what comes of them.
func (g *generator) rounds(n int) {
	if g.scheduled {
		g.add(op{kind: pass, d: time.Duration(n) * probe.Interval})
		return
	}
	who := g.who()
	for range n {
		took := time.Duration(0)
		for _, name := range []string{"web", "", "api"} {
			if g.IntN(8) == 0 {
				continue
			}
			r := g.result()
			took = max(took, r.Took)
			g.add(op{kind: attempt, agent: who, name: name, yes: g.IntN(6) == 0, target: r})
		}
		g.add(op{kind: pass, d: took + g.moment()})
		if g.IntN(8) > 0 {
			g.add(op{kind: round, agent: who})
		}
		if g.IntN(3) == 0 {
			g.add(op{kind: read})
		}
		g.add(op{kind: pass, d: g.one(probe.Interval, probe.Interval-took, time.Second, g.moment())})
	}
}

// configuration adds a change of what is exposed.
func (g *generator) configuration() {
	switch g.IntN(5) {
	case 0:
		g.add(op{kind: remove, name: g.name()})
	default:
		g.add(op{kind: expose, name: g.name(), yes: g.coin()})
	}
	if g.coin() {
		g.add(op{kind: read})
	}
}

// link adds trouble between agent and gateway.
func (g *generator) link() {
	who, up := g.who(), g.coin()
	switch g.IntN(8) {
	case 0:
		g.add(op{kind: sever, agent: who, yes: g.coin(), also: g.coin()}, op{kind: pass, d: g.while()}, op{kind: connect, agent: who})
	case 1:
		g.add(op{kind: sever, agent: who, yes: true, also: g.coin()}, op{kind: pass, d: g.moment()}, op{kind: connect, agent: who, d: g.moment()})
	case 2:
		g.add(op{kind: hold, agent: who, yes: up})
	case 3:
		g.add(op{kind: release, agent: who, yes: up})
	case 4:
		g.add(op{kind: hold, agent: who, yes: up})
		g.rounds(1 + g.IntN(3))
		g.add(op{kind: pass, d: g.while()}, op{kind: release, agent: who, yes: up}, op{kind: pass, d: g.moment()}, op{kind: read})
	case 5:
		g.add(op{kind: delay, agent: who, yes: up, d: g.one(0, 0, g.moment(), 400*time.Millisecond, 4*time.Second, 9*time.Second)})
	case 6:
		g.add(op{kind: cleanUp, d: g.one(0, g.moment(), time.Second, 20*time.Second)})
	case 7:
		g.add(op{kind: record, d: g.one(0, g.moment(), time.Second, 20*time.Second)})
	}
}

// lives adds beginnings, ends and pauses of processes.
func (g *generator) lives() {
	who := g.who()
	switch g.IntN(10) {
	case 9:
		g.add(op{kind: freezeGateway}, op{kind: pass, d: g.while()})
		if g.coin() {
			g.rounds(1)
		}
		g.add(op{kind: thawGateway}, op{kind: read})
	case 0, 1:
		machine := who
		g.add(op{kind: start, agent: machine, yes: g.IntN(4) > 0}, op{kind: pass, d: g.moment()}, op{kind: connect, d: g.one(0, 0, g.moment(), 2*time.Second)})
		if g.coin() {
			g.add(op{kind: read})
		}
	case 2:
		g.add(op{kind: restart})
		if g.coin() {
			g.add(op{kind: pass, d: g.while()})
		}
		g.add(op{kind: connect, agent: who})
	case 3:
		g.add(op{kind: freeze, agent: who, yes: g.coin()}, op{kind: pass, d: g.while()})
	case 4:
		g.add(op{kind: thaw, agent: who})
	case 5:
		g.add(op{kind: freeze, agent: who, yes: g.coin()}, op{kind: pass, d: g.while()}, op{kind: thaw, agent: who}, op{kind: read})
	case 6:
		g.add(op{kind: kill, agent: who})
		g.anew(who)
	case 7:
		g.add(op{kind: leave, agent: who, yes: g.coin()})
		g.anew(who)
	case 8:
		step := g.one(-time.Hour, -time.Second, time.Second, 16*time.Second, 1000*time.Hour)
		g.add(op{kind: stepGateway, d: step}, op{kind: stepMachine, agent: who, d: -step})
	}
}

// anew adds mostly an agent in place of one that is gone.
func (g *generator) anew(machine int) {
	if g.IntN(4) > 0 {
		g.add(op{kind: pass, d: g.while()}, op{kind: start, agent: machine}, op{kind: connect}, op{kind: pass, d: g.moment()})
	}
}

// sandbox adds stops and starts.
func (g *generator) sandbox() {
	halt := []op{{kind: stop}, {kind: stopped, yes: g.IntN(4) > 0}}
	switch g.IntN(4) {
	case 0:
		g.add(op{kind: stop}, op{kind: read})
	case 1:
		g.add(halt...)
	case 2: // a handshake of the life before is still under way
		g.add(op{kind: connect, agent: g.who(), d: g.one(time.Millisecond, 5*time.Second)})
		g.add(halt...)
		g.add(op{kind: begin}, op{kind: pass, d: g.while()}, op{kind: read})
	case 3:
		g.add(halt...)
		g.add(op{kind: pass, d: g.moment()})
	}
	if g.IntN(5) > 0 {
		g.add(op{kind: stopped, yes: true}, op{kind: begin}, op{kind: start, yes: true}, op{kind: connect, d: g.one(0, 0, time.Second)}, op{kind: pass, d: g.moment()})
	}
}
