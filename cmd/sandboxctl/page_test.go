// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A table is no wider than its page while there is a column to leave out, and
// keeps every cell of the columns that stay.
func TestTableFits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		columns := make([]column, 1+random.IntN(6))
		rows := make([][]cell, random.IntN(5))
		optional := 0
		for i := range columns {
			columns[i] = column{strings.Repeat("H", 1+random.IntN(12)), random.IntN(4)}
			optional += min(columns[i].rank, 1)
		}
		for i := range rows {
			for range columns {
				rows[i] = append(rows[i], cell{strings.Repeat("x", random.IntN(30)), tone(random.IntN(4))})
			}
		}
		p := &page{width: random.IntN(120), colour: random.IntN(2) == 0}
		p.table(columns, rows)
		lines := strings.Split(strings.TrimSuffix(uncolour(p.out.String()), "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d lines for %d rows", len(lines), len(rows))
		}
		for _, line := range lines {
			if p.width > 0 && len(line) > p.width && len(p.hidden) < optional {
				t.Fatalf("width %d, but %d columns could go:\n%s", p.width, optional-len(p.hidden), p.out.String())
			}
			if got, want := len(strings.Fields(line)), len(columns)-len(p.hidden); got != want {
				t.Fatalf("%d cells, want %d:\n%s", got, want, p.out.String())
			}
		}
		if p.width == 0 && len(p.hidden) > 0 {
			t.Fatalf("hidden %v without a width", p.hidden)
		}
	}
}

func TestHiddenOrder(t *testing.T) {
	p := &page{width: 9}
	p.table([]column{{"AAA", 2}, {"BBB", 0}, {"CCC", 3}, {"DDD", 1}}, [][]cell{{val("1"), val("2"), val("3"), val("4")}})
	if got := strings.Join(p.hidden, ","); got != "CCC,AAA" {
		t.Errorf("hidden %s", got)
	}
	if got, want := p.out.String(), "BBB  DDD\n2    4\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Colour adds nothing but colour: without it the words are the same.
func TestColourIsNoMeaning(t *testing.T) {
	rows := [][]cell{{toned("Ready", good), val("a")}, {toned("Not ready", bad), val("b")}, {toned("Unknown", unsure), val("")}}
	draw := func(colour bool) string {
		p := &page{colour: colour}
		p.table([]column{{"HEALTH", 0}, {"X", 0}}, rows)
		return p.out.String()
	}
	if draw(true) == draw(false) || uncolour(draw(true)) != draw(false) {
		t.Errorf("with colour:\n%q\nwithout:\n%q", draw(true), draw(false))
	}
}

func TestCellWidth(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "ä": 1, "a\u0308": 1, "\x1b": 4, "\n": 2} {
		if got := cellWidth(s); got != want {
			t.Errorf("width of %q is %d, want %d", s, got, want)
		}
	}
}
