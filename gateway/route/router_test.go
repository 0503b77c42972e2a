// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

// seen is what the application was asked.
func seen(w *world) (map[string][]string, string, string) {
	var got struct {
		Header       map[string][]string
		Host, Target string
	}
	resp := w.do("GET", "/a%2Fb//c;d?x=1;y=%zz&z", nil,
		"Origin", "http://"+host, "Referer", "http://"+host+"/page", "Cookie", "session=1; sandbox-gateway-x=2",
		"Authorization", "Bearer app-token", "Authorization", "Bearer admin-token",
		"Connection", "X-Hop", "X-Hop", "1", "X-Forwarded-For", "6.6.6.6", "Forwarded", "for=6.6.6.6",
		"Sec-Fetch-Site", "same-origin", "Accept-Encoding", "br", "User-Agent", "test/1")
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		w.t.Fatal(err)
	}
	return got.Header, got.Host, got.Target
}

// T22, T23: the whole request as the application sees it.
func TestWhatTheApplicationSees(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(rw).Encode(map[string]any{"Header": r.Header, "Host": r.Host, "Target": r.RequestURI})
	})
	header, gotHost, target := seen(w)
	upstream := "localhost:" + strconv.Itoa(int(w.endpoint.Port))
	if gotHost != upstream {
		t.Errorf("Host: %s", gotHost)
	}
	if target != "/a%2Fb//c;d?x=1;y=%zz&z" {
		t.Errorf("target %s", target)
	}
	want := map[string]string{
		"Origin": "http://" + upstream, "Referer": "http://" + upstream + "/page", "Cookie": "session=1",
		"Authorization": "Bearer app-token", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": host,
		"X-Forwarded-Proto": "http", "Forwarded": `for=127.0.0.1;host="` + host + `";proto=http`,
		"Sec-Fetch-Site": "same-origin", "Accept-Encoding": "br", "User-Agent": "test/1",
	}
	for name, value := range want {
		if got := header[name]; len(got) != 1 || got[0] != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
		delete(header, name)
	}
	if len(header) > 0 {
		t.Errorf("and more: %v", header)
	}
}

func TestWhatTheClientSees(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		h := rw.Header()
		h.Set("Location", "http://"+r.Host+"/next")
		h.Set("Set-Cookie", "a=1; Path=/; HttpOnly")
		h.Set("Alt-Svc", `h3=":443"`)
		h.Set(ErrorHeader, "Forged")
		rw.WriteHeader(http.StatusFound)
	})
	resp := w.do("GET", "/", nil)
	if resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "http://"+host+"/next" || resp.Header.Get("Set-Cookie") != "a=1; Path=/; HttpOnly" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	for _, name := range []string{"Alt-Svc", ErrorHeader} {
		if resp.Header.Get(name) != "" {
			t.Errorf("%s: %s", name, resp.Header.Get(name))
		}
	}
}

// T22, T23: what a page of another sandbox or of another site may not send does
// not reach the application.
func TestForeignPages(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "reached") })
	socket := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	for _, tt := range []struct {
		method  string
		headers []string
		want    int
	}{
		{"POST", nil, 200},
		{"POST", []string{"Origin", "http://" + host}, 200},
		{"POST", []string{"Origin", "http://default--web--api.sandbox.localhost:17680"}, 200},
		{"POST", []string{"Origin", "https://example.com"}, 403},
		{"POST", []string{"Origin", "null"}, 403},
		{"POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"GET", []string{"Origin", "https://example.com"}, 200},
		{"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"GET", []string{"Origin", "http://" + evil}, 403},
		{"GET", append([]string{"Origin", "https://example.com"}, socket...), 403},
		{"GET", append([]string{"Origin", "http://" + evil}, socket...), 403},
		{"GET", append([]string{"Origin", "http://" + host}, socket...), 200},
		{"OPTIONS", []string{"Origin", "https://example.com", "Access-Control-Request-Method", "GET"}, 200},
		{"OPTIONS", []string{"Origin", "https://example.com", "Access-Control-Request-Method", "PUT"}, 403},
		{"GET", []string{"Origin", "http://" + host, "Origin", "http://" + host}, 400},
	} {
		resp := w.do(tt.method, "/", nil, tt.headers...)
		body := text(t, resp.Body)
		if resp.StatusCode != tt.want || (tt.want == 200) != (body == "reached") || (tt.want != 200) != (resp.Header.Get(ErrorHeader) == "Origin") {
			t.Errorf("%s %v: %d %q", tt.method, tt.headers, resp.StatusCode, body)
		}
	}
}

// The gateway's own pages are on every other host, and pages of sandboxes do not
// script them (T23).
func TestOwnHost(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) { t.Error("the application was asked") })
	for _, tt := range []struct {
		host, origin string
		want         int
	}{
		{"127.0.0.1:17680", "", 200},
		{"sandbox.localhost:17680", "", 200},
		{"gateway.example.com", "", 200},
		{"gateway.example.com", "https://gateway.example.com", 200},
		{"sandbox.localhost:17680", "http://" + host, 403},
		{"sandbox.localhost:17680", "https://example.com", 403},
		{"nonsense.sandbox.localhost", "", 404},
	} {
		headers := []string{"Host", tt.host}
		if tt.origin != "" {
			headers = append(headers, "Origin", tt.origin)
		}
		resp := w.do("GET", "/readyz", nil, headers...)
		if body := text(t, resp.Body); resp.StatusCode != tt.want || (tt.want == 200) != (body == "the gateway's own") {
			t.Errorf("%+v: %d %q", tt, resp.StatusCode, body)
		}
	}
}

func TestProblems(t *testing.T) {
	w := newWorld(t, nil)
	w.dial = func(context.Context) (net.Conn, error) { return nil, errors.New("nothing there") }
	ready := w.endpoint
	for _, tt := range []struct {
		reason string
		status int
		set    func(*world)
		host   string
		text   string
	}{
		{"NoSandbox", 404, nil, "default--other.sandbox.localhost", "there is no sandbox other in workspace default"},
		{"NoService", 404, nil, "default--web--docs.sandbox.localhost", "sandbox web has no service docs"},
		{"NoService", 404, func(w *world) { w.err = ErrNoService }, host, "sandbox web has no unnamed service"},
		{"NoName", 404, nil, "web.sandbox.localhost", "WORKSPACE--SANDBOX--SERVICE.sandbox.localhost"},
		{"Store", 503, func(w *world) { w.err = errors.New("store: secret detail") }, host, "the gateway's store does not answer"},
		{"NotReady", 412, func(w *world) { w.endpoint.Phase, w.endpoint.Open = "stopped", false }, host, "sandbox web is stopped"},
		{"UnknownService", 502, func(w *world) { w.refuse = mux.RelayUnknownService }, host, "does not know this service yet"},
		{"Refused", 502, nil, host, "nothing listens on the port"},
		{"Timeout", 502, func(w *world) { w.refuse = mux.RelayTimeout }, host, "does not accept connections"},
		{"TooMany", 503, func(w *world) { w.refuse = mux.RelayTooMany }, host, "256 connections open"},
		{"Stopping", 502, func(w *world) { w.refuse = mux.RelayStopping }, host, "about to stop"},
		{"Forbidden", 502, func(w *world) { w.refuse = mux.RelayForbidden }, host, "agent's own"},
		{"Unreachable", 502, func(w *world) { w.refuse = mux.RelayUnreachable }, host, "could not connect"},
		{"Refused", 502, func(w *world) { w.refuse = 77 }, host, "refused the connection"},
		{"Closed", 502, func(w *world) { w.dial = speak("") }, host, "closed the connection without an answer"},
		{"BadResponse", 502, func(w *world) { w.dial = speak("SSH-2.0-x\r\n\r\n") }, host, "not a proper HTTP/1.1 response"},
		{"BadResponse", 502, func(w *world) { w.dial = speak("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n") }, host, "not a proper HTTP/1.1 response"},
		{"BadResponse", 502, func(w *world) { w.dial = speak("HTTP/1.1 099 x\r\nContent-Length: 0\r\n\r\n") }, host, "not a proper HTTP/1.1 response"},
		{"Disconnected", 502, func(w *world) { _ = w.session.Close() }, host, "is not connected"},
	} {
		w.set(func(w *world) {
			w.endpoint, w.err, w.refuse = ready, nil, 0
			if tt.set != nil {
				tt.set(w)
			}
		})
		for _, accept := range []string{"", "text/html,application/json;q=0.9", "application/json"} {
			resp := w.do("GET", "/", nil, "Host", tt.host, "Accept", accept)
			body := text(t, resp.Body)
			if resp.StatusCode != tt.status || resp.Header.Get(ErrorHeader) != tt.reason || !strings.Contains(body, tt.text) || strings.Contains(body, "secret") {
				t.Errorf("%s: %d %s %q", tt.reason, resp.StatusCode, resp.Header.Get(ErrorHeader), body)
			}
			var parsed struct {
				Error struct {
					Status          int
					Reason, Message string
				}
			}
			if isJSON := json.Unmarshal([]byte(body), &parsed) == nil; isJSON != (accept == "application/json") {
				t.Errorf("%s: Accept %q gets %q", tt.reason, accept, body)
			} else if isJSON && (parsed.Error.Status != tt.status || parsed.Error.Reason != tt.reason || !strings.Contains(parsed.Error.Message, tt.text)) {
				t.Errorf("%s: %q", tt.reason, body)
			}
		}
	}
}

// speak dials an application that reads a request, says what is given and
// hangs up.
func speak(answer string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		go func() {
			defer func() { _ = l.Close() }()
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}()
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}

// T19: a relay that nobody answers fails within two seconds, and says so.
func TestDeadRelay(t *testing.T) {
	w := newWorld(t, nil)
	w.silent = true
	start := time.Now()
	resp := w.do("POST", "/", strings.NewReader("body"))
	took := time.Since(start)
	if resp.StatusCode != 502 || resp.Header.Get(ErrorHeader) != "NoAnswer" || took > 2*time.Second {
		t.Errorf("%d %s after %v", resp.StatusCode, resp.Header.Get(ErrorHeader), took)
	}
}

// The cap of a session is met by the gateway itself, and clear to the client.
func TestTooMany(t *testing.T) {
	w := newWorld(t, nil)
	w.silent = true
	for range mux.MaxRelays {
		r, err := w.session.OpenRelay(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Reset() }()
	}
	resp := w.do("GET", "/", nil)
	if resp.StatusCode != 503 || resp.Header.Get(ErrorHeader) != "TooMany" || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

func TestConnectIsRefused(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) { t.Error("the application was asked") })
	_, br := w.raw("CONNECT default--web.sandbox.localhost:80 HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v, %v", resp, err)
	}
}
