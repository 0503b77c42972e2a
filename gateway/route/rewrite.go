// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"net/http"
	"strings"
)

// CookiePrefix begins the names of the gateway's own cookies, which no service
// is sent. Both forms that browsers give a meaning to may stand before it.
const CookiePrefix = "sandbox-gateway-"

// forward says for whom the gateway asks; what a client said of that is gone.
func forward(h http.Header, client, host, proto string) {
	for name := range h {
		// Many servers take an underscore for a hyphen.
		plain := http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		if plain == "Forwarded" || strings.HasPrefix(plain, "X-Forwarded-") {
			delete(h, name)
		}
	}
	node := client
	if client == "" {
		node = "unknown"
	} else {
		h.Set("X-Forwarded-For", client)
	}
	if strings.Contains(node, ":") {
		node = `"[` + node + `]"`
	}
	h.Set("X-Forwarded-Host", host)
	h.Set("X-Forwarded-Proto", proto)
	h.Set("Forwarded", "for="+node+";host="+quoted(host)+";proto="+proto)
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// localOrigin makes the service see its own pages as its own: it believes to be
// at upstream, "localhost:PORT". Other pages keep their names.
func localOrigin(h http.Header, upstream string, source Source, host string) {
	if source == SamePage && h.Get("Origin") != "" {
		h.Set("Origin", "http://"+upstream)
	}
	if path, ok := ofHost(h.Get("Referer"), host); ok {
		h.Set("Referer", "http://"+upstream+path)
	}
}

// publicLocation is the way back: a redirect to where the service believes to
// be leads to where it is.
func publicLocation(h http.Header, port, public string) {
	for _, local := range []string{"localhost", "127.0.0.1", "[::1]"} {
		if path, ok := ofHost(h.Get("Location"), local+port); ok {
			h.Set("Location", public+path)
			return
		}
	}
}

// ofHost cuts a URL of that host, of either scheme, down to what follows the
// host.
func ofHost(url, host string) (path string, ok bool) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") || len(rest) < len(host) {
		return "", false
	}
	path = rest[len(host):]
	return path, strings.EqualFold(rest[:len(host)], host) && (path == "" || strings.ContainsRune("/?#", rune(path[0])))
}

// strip takes the gateway's own credentials out: its admin token and its
// cookies. Whatever else there is belongs to the application.
func strip(h http.Header, isAdmin func(string) bool) {
	var kept []string
	for _, value := range h["Authorization"] {
		f := strings.Fields(value)
		if len(f) != 2 || !strings.EqualFold(f[0], "bearer") || !isAdmin(f[1]) {
			kept = append(kept, value)
		}
	}
	replace(h, "Authorization", kept)
	var lines []string
	for _, line := range h["Cookie"] {
		if !strings.Contains(line, CookiePrefix) {
			lines = append(lines, line)
			continue
		}
		var cookies []string
		for c := range strings.SplitSeq(line, ";") {
			if c = strings.TrimSpace(c); c != "" && !ownCookie(c) {
				cookies = append(cookies, c)
			}
		}
		if cookies != nil {
			lines = append(lines, strings.Join(cookies, "; "))
		}
	}
	replace(h, "Cookie", lines)
}

func ownCookie(c string) bool {
	c = strings.TrimPrefix(strings.TrimPrefix(c, "__Host-"), "__Secure-")
	return strings.HasPrefix(c, CookiePrefix)
}

func replace(h http.Header, name string, values []string) {
	if len(values) == 0 {
		delete(h, name)
		return
	}
	h[name] = values
}
