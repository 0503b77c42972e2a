// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"unicode"
)

// cell is a text with its tone. Its text may hold anything: it is cleaned when
// it is drawn.
type cell struct {
	text string
	tone tone
}

func val(s string) cell           { return cell{text: s} }
func toned(s string, t tone) cell { return cell{s, t} }

// column is a column of a table. When the terminal is too narrow the columns
// with the highest rank are left out first; rank 0 is never left out.
type column struct {
	head string
	rank int
}

// page collects what a command says to people. Everything that it draws is
// free of control characters but for line ends and its own colours.
type page struct {
	width  int // of the terminal; 0 is any
	colour bool
	clip   bool // no line is wider than the terminal

	out    strings.Builder
	hidden []string // heads of the columns that found no room
}

// line writes one line.
func (p *page) line(s string) { p.grid([][]cell{{val(s)}}) }

// paragraph writes a text that may have several lines, each indented.
func (p *page) paragraph(indent, s string) {
	for line := range strings.Lines(s) {
		p.line(indent + strings.TrimRight(line, "\r\n"))
	}
}

// field is one "Label: value".
type field struct {
	label string
	value cell
}

// fields writes one field on a line, the values aligned. A field without a
// value is left out.
func (p *page) fields(list ...field) {
	var shown [][]cell
	for _, f := range list {
		if f.value.text != "" {
			shown = append(shown, []cell{{text: f.label + ":"}, f.value})
		}
	}
	p.grid(shown)
}

// table writes rows under their heads; an empty cell shows "-".
func (p *page) table(columns []column, rows [][]cell) {
	columns, rows = p.fit(columns, rows)
	head := make([]cell, len(columns))
	for i, c := range columns {
		head[i] = val(c.head)
	}
	grid := [][]cell{head}
	for _, row := range rows {
		filled := make([]cell, len(row))
		for i, c := range row {
			if c.text == "" {
				c.text = "-"
			}
			filled[i] = c
		}
		grid = append(grid, filled)
	}
	p.grid(grid)
}

// gap is between two columns.
const gap = "  "

// fit leaves columns out until the table is no wider than the page.
func (p *page) fit(columns []column, rows [][]cell) ([]column, [][]cell) {
	for p.width > 0 {
		total, last := -len(gap), -1
		for i, c := range columns {
			w := cellWidth(c.head)
			for _, row := range rows {
				w = max(w, cellWidth(row[i].text))
			}
			total += w + len(gap)
			if c.rank > 0 && (last < 0 || c.rank > columns[last].rank) {
				last = i
			}
		}
		if total <= p.width || last < 0 {
			break
		}
		p.hidden = append(p.hidden, columns[last].head)
		columns = without(columns, last)
		narrow := make([][]cell, len(rows))
		for i, row := range rows {
			narrow[i] = without(row, last)
		}
		rows = narrow
	}
	return columns, rows
}

func without[T any](list []T, i int) []T {
	return append(append([]T{}, list[:i]...), list[i+1:]...)
}

// grid writes cells in aligned columns.
func (p *page) grid(rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], cellWidth(c.text))
		}
	}
	for _, row := range rows {
		room := p.width
		for i, c := range row {
			if p.clip && p.width > 0 {
				c.text = clipped(c.text, room)
				if room -= widths[i] + len(gap); room <= 0 {
					p.out.WriteString(p.paint(c))
					break
				}
			}
			p.out.WriteString(p.paint(c))
			if i < len(row)-1 {
				p.out.WriteString(strings.Repeat(" ", widths[i]-cellWidth(c.text)) + gap)
			}
		}
		p.out.WriteString("\n")
	}
}

// clipped is a text cut to a width; what is cut ends with "…".
func clipped(s string, width int) string {
	if cellWidth(s) <= width {
		return s
	}
	s = clean(s)
	for i := range s {
		if cellWidth(s[:i]) >= width-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// paint draws one cell.
func (p *page) paint(c cell) string {
	s := clean(c.text)
	if !p.colour || s == "" {
		return s
	}
	code := map[tone]string{good: "32", bad: "31", unsure: "33"}[c.tone]
	if code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// cellWidth is the number of columns that a text takes once it is cleaned.
// Accents that combine with the letter before take none.
func cellWidth(s string) int {
	n := 0
	for _, r := range clean(s) {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			n++
		}
	}
	return n
}
