// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package probe

// head reads the header sections of one HTTP/1 response, byte by byte and in
// pieces of any size, up to the end of the final one. It keeps no byte of
// them, so its memory is its own few words however much a peer sends.
//
// It is strict in what makes a response HTTP (the status line; every line a
// field, with a name that is a token) and lenient in what deployed servers get
// wrong (a bare LF, folded lines, white space before a colon, odd bytes in
// values). Interim sections (1xx) are skipped; 101 is final, for there is no
// HTTP after it.
type head struct {
	at    place
	seen  int    // bytes of header sections so far
	match int    // bytes of the line that matched statusPrefix, or digits of the code
	code  uint16 // of the section being read
	field bool   // whether the section has a field that a folded line can continue
}

// place is where in a header section a head is.
type place uint8

const (
	inPrefix place = iota // "HTTP/1."
	inMinor
	beforeCode
	inCode
	afterCode
	inPhrase
	lineStart
	inName
	beforeColon
	inValue
	afterCR    // a LF must follow: of a status line or a field
	afterEndCR // a LF must follow: of the empty line
)

const statusPrefix = "HTTP/1."

// read consumes p. It returns NoReason if it needs more, OK once the final
// header section has ended, with its status in h.code, NotHTTP or
// HeadersTooLarge. After anything but NoReason it must not be called again.
func (h *head) read(p []byte) Reason {
	for _, c := range p {
		if h.seen++; h.seen > MaxHeaderBytes {
			return HeadersTooLarge
		}
		if c > '\r' && (h.at == inValue || h.at == inPhrase) {
			continue // nearly every byte; text would say the same
		}
		ended, ok := h.step(c)
		switch {
		case !ok:
			return NotHTTP
		case !ended:
			continue
		}
		if h.code >= 200 || h.code == 101 {
			return OK
		}
		*h = head{seen: h.seen}
	}
	return NoReason
}

// step consumes one byte. It reports whether it ended the header section, and
// whether it can be part of one.
func (h *head) step(c byte) (ended, ok bool) {
	if h.at < lineStart {
		return false, h.statusLine(c)
	}
	switch h.at {
	case lineStart:
		return h.lineStart(c)
	case afterEndCR:
		return true, c == '\n'
	case inName:
		switch {
		case c == ':':
			h.at = inValue
		case c == ' ' || c == '\t':
			h.at = beforeColon
		default:
			return false, isToken(c)
		}
		return false, true
	case beforeColon:
		if c == ':' {
			h.at = inValue
			return false, true
		}
		return false, c == ' ' || c == '\t'
	case inValue:
		return false, h.text(c)
	default: // afterCR
		h.at = lineStart
		return false, c == '\n'
	}
}

// statusLine consumes one byte of "HTTP/1.1 200 Any phrase".
func (h *head) statusLine(c byte) bool {
	switch h.at {
	case inPrefix:
		if c != statusPrefix[h.match] {
			return false
		}
		if h.match++; h.match == len(statusPrefix) {
			h.at, h.match = inMinor, 0
		}
		return true
	case inMinor:
		h.at = beforeCode
		return isDigit(c)
	case beforeCode:
		h.at = inCode
		return c == ' '
	case inCode:
		if !isDigit(c) || h.match == 0 && c == '0' {
			return false
		}
		h.code = h.code*10 + uint16(c-'0')
		if h.match++; h.match == 3 {
			h.at = afterCode
		}
		return true
	case afterCode:
		h.at = inPhrase
		return c == ' ' || (c == '\r' || c == '\n') && h.text(c)
	default: // inPhrase
		return h.text(c)
	}
}

// lineStart consumes the first byte of a line after the status line.
func (h *head) lineStart(c byte) (ended, ok bool) {
	switch {
	case c == '\n':
		return true, true
	case c == '\r':
		h.at = afterEndCR
	case c == ' ' || c == '\t':
		h.at = inValue
		return false, h.field
	default:
		h.at, h.field = inName, true
		return false, isToken(c)
	}
	return false, true
}

// text consumes one byte of a phrase or a value, up to the end of the line.
func (h *head) text(c byte) bool {
	switch c {
	case '\n':
		h.at = lineStart
	case '\r':
		h.at = afterCR
	case 0:
		return false
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isToken reports whether c may be in a field name (RFC 9110, 5.6.2).
func isToken(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c):
		return true
	case c == '!', c == '#', c == '$', c == '%', c == '&', c == '\'', c == '*', c == '+',
		c == '-', c == '.', c == '^', c == '_', c == '`', c == '|', c == '~':
		return true
	}
	return false
}
