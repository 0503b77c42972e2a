// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

var heads = []struct {
	name, text string
	want       Reason
	code       uint16
}{
	{"plain", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", OK, 200},
	{"HTTP/1.0", "HTTP/1.0 404 Not Found\r\n\r\n", OK, 404},
	{"no phrase", "HTTP/1.1 204\r\n\r\n", OK, 204},
	{"empty phrase", "HTTP/1.1 204 \r\n\r\n", OK, 204},
	{"odd phrase", "HTTP/1.1 500 \xff\x01 \t\r\n\r\n", OK, 500},
	{"bare LF", "HTTP/1.1 301 Moved\nLocation: /\n\n", OK, 301},
	{"bare LF, no phrase", "HTTP/1.1 301\n\n", OK, 301},
	{"mixed ends", "HTTP/1.1 301 Moved\nA: b\r\n\n", OK, 301},
	{"folded", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\td\r\n\r\n", OK, 200},
	{"space before colon", "HTTP/1.1 200 OK\r\nA \t: b\r\n\r\n", OK, 200},
	{"empty value", "HTTP/1.1 200 OK\r\nA:\r\n\r\n", OK, 200},
	{"odd value", "HTTP/1.1 200 OK\r\nA: \x1b[0m\xff:\r\n\r\n", OK, 200},
	{"every token", "HTTP/1.1 200 OK\r\n!#$%&'*+-.^_`|~aZ09: 1\r\n\r\n", OK, 200},
	{"status 999", "HTTP/1.1 999 ?\r\n\r\n", OK, 999},
	{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", OK, 200},
	{"interim only", "HTTP/1.1 100 Continue\r\n\r\n", NoReason, 0},
	{"switching protocols", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n\x00\x00", OK, 101},
	{"a TLS server's own words", "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", OK, 400},
	{"largest", largest(MaxHeaderBytes), OK, 200},
	{"largest and a body", largest(MaxHeaderBytes) + "body", OK, 200},

	{"nothing", "", NoReason, 0},
	{"cut in the status line", "HTTP/1.1 20", NoReason, 0},
	{"cut in a field", "HTTP/1.1 200 OK\r\nA: b", NoReason, 0},
	{"cut before the empty line", "HTTP/1.1 200 OK\r\nA: b\r\n", NoReason, 0},
	{"cut in the empty line", "HTTP/1.1 200 OK\r\nA: b\r\n\r", NoReason, 0},

	{"too large", largest(MaxHeaderBytes + 1), HeadersTooLarge, 0},
	{"one long line", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", MaxHeaderBytes), HeadersTooLarge, 0},
	{"long phrase", "HTTP/1.1 200 " + strings.Repeat("b", MaxHeaderBytes), HeadersTooLarge, 0},
	{"interim storm", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 3000), HeadersTooLarge, 0},

	{"TLS alert", "\x15\x03\x01\x00\x02\x02\x46", NotHTTP, 0},
	{"HTTP/2 settings", "\x00\x00\x12\x04\x00\x00\x00\x00\x00", NotHTTP, 0},
	{"SSH", "SSH-2.0-OpenSSH_9.6\r\n", NotHTTP, 0},
	{"SMTP", "220 mail ESMTP\r\n", NotHTTP, 0},
	{"HTTP/0.9", "<html></html>", NotHTTP, 0},
	{"HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n", NotHTTP, 0},
	{"HTTP/1.x", "HTTP/1.x 200 OK\r\n\r\n", NotHTTP, 0},
	{"HTTP/1.10", "HTTP/1.10 200 OK\r\n\r\n", NotHTTP, 0},
	{"lower case", "http/1.1 200 OK\r\n\r\n", NotHTTP, 0},
	{"empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", NotHTTP, 0},
	{"two digits", "HTTP/1.1 20 OK\r\n\r\n", NotHTTP, 0},
	{"four digits", "HTTP/1.1 2000 OK\r\n\r\n", NotHTTP, 0},
	{"status 0xx", "HTTP/1.1 099 ?\r\n\r\n", NotHTTP, 0},
	{"signed", "HTTP/1.1 +20 OK\r\n\r\n", NotHTTP, 0},
	{"two spaces", "HTTP/1.1  200 OK\r\n\r\n", NotHTTP, 0},
	{"ICY", "ICY 200 OK\r\n\r\n", NotHTTP, 0},
	{"no colon", "HTTP/1.1 200 OK\r\nhello\r\n\r\n", NotHTTP, 0},
	{"no name", "HTTP/1.1 200 OK\r\n: b\r\n\r\n", NotHTTP, 0},
	{"space in a name", "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", NotHTTP, 0},
	{"folded first", "HTTP/1.1 200 OK\r\n A: b\r\n\r\n", NotHTTP, 0},
	{"NUL in a value", "HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n", NotHTTP, 0},
	{"NUL in the phrase", "HTTP/1.1 200 \x00\r\n\r\n", NotHTTP, 0},
	{"bare CR", "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", NotHTTP, 0},
	{"bare CR at the end", "HTTP/1.1 200 OK\r\n\rX", NotHTTP, 0},
	{"garbage after interim", "HTTP/1.1 100 Continue\r\n\r\nhello", NotHTTP, 0},
}

// largest returns a header section of n bytes.
func largest(n int) string {
	const begin, end = "HTTP/1.1 200 OK\r\nA: ", "\r\n\r\n"
	return begin + strings.Repeat("b", n-len(begin)-len(end)) + end
}

// readIn feeds text to a head in pieces.
func readIn(text string, piece int) (Reason, uint16) {
	var h head
	for text != "" {
		n := min(piece, len(text))
		if r := h.read([]byte(text[:n])); r != NoReason {
			return r, h.code
		}
		text = text[n:]
	}
	return NoReason, 0
}

func TestHead(t *testing.T) {
	for _, tt := range heads {
		t.Run(tt.name, func(t *testing.T) {
			for _, piece := range []int{1, 2, 7, bufferSize, 1 << 20} {
				r, code := readIn(tt.text, piece)
				if r != OK {
					code = 0
				}
				if r != tt.want || code != tt.code {
					t.Errorf("in pieces of %d: %v, %d; want %v, %d", piece, r, code, tt.want, tt.code)
				}
			}
		})
	}
}

func TestHeadKeepsNothing(t *testing.T) {
	text := []byte(largest(MaxHeaderBytes))
	if n := testing.AllocsPerRun(10, func() {
		var h head
		if h.read(text) != OK {
			t.Fatal("not OK")
		}
	}); n != 0 {
		t.Errorf("T30: %v allocations for the largest header section", n)
	}
}

var (
	statusLine = regexp.MustCompile(`(?s)\AHTTP/1\.[0-9] ([1-9])([0-9])([0-9])( [^\x00\r]*)?\z`)
	fieldLine  = regexp.MustCompile("(?s)\\A[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*:[^\x00\r]*\\z")
	foldedLine = regexp.MustCompile(`(?s)\A[ \t][^\x00\r]*\z`)
)

// modelHead reads whole lines, and knows only whether a final header section is
// there, and its status.
func modelHead(text []byte) (code uint16, ok bool) {
	text = text[:min(len(text), MaxHeaderBytes)]
	for {
		first, inSection := true, false
		for {
			line, rest, found := bytes.Cut(text, []byte("\n"))
			if !found {
				return 0, false
			}
			text = rest
			line = bytes.TrimSuffix(line, []byte("\r"))
			if first {
				m := statusLine.FindSubmatch(line)
				if m == nil {
					return 0, false
				}
				code = uint16(m[1][0]-'0')*100 + uint16(m[2][0]-'0')*10 + uint16(m[3][0]-'0')
				first = false
				continue
			}
			if len(line) == 0 {
				break
			}
			if !fieldLine.Match(line) && !(inSection && foldedLine.Match(line)) {
				return 0, false
			}
			inSection = true
		}
		if code >= 200 || code == 101 {
			return code, true
		}
	}
}

func FuzzHead(f *testing.F) {
	for _, tt := range heads {
		if len(tt.text) < 4096 {
			f.Add([]byte(tt.text), uint16(3))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		var whole, pieces head
		want := whole.read(text)
		at := int(cut) % (len(text) + 1)
		got := pieces.read(text[:at])
		if got == NoReason {
			got = pieces.read(text[at:])
		}
		if got != want || got == OK && whole.code != pieces.code {
			t.Errorf("cut at %d: %v %d; whole: %v %d", at, got, pieces.code, want, whole.code)
		}
		code, ok := modelHead(text)
		if ok != (want == OK) || ok && code != whole.code {
			t.Errorf("head: %v %d; model: %v %d", want, whole.code, ok, code)
		}
		if whole.seen > MaxHeaderBytes+1 || want != HeadersTooLarge && whole.seen > len(text) {
			t.Errorf("%d bytes seen of %d", whole.seen, len(text))
		}
	})
}
