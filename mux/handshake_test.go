// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
)

const upgradeRequest = "GET /supervisor/v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n" +
	"Upgrade: sandbox-supervisor/1\r\nAuthorization: Bearer a.b-c\r\n" +
	"Sandbox-Agent-Instance: i-1\r\nSandbox-Agent-Version: 1.2.3\r\n\r\n"

// helloCases are requests as edits of a good one: old, new.
var helloCases = map[string]struct {
	old, new string
	status   int // 0: accepted
}{
	"good":                        {"", "", 0},
	"scheme in another case":      {"Bearer a", "bEARER   a", 0},
	"upgrade among others":        {"Upgrade: sandbox", "Upgrade: h2c, Sandbox", 0},
	"connection among others":     {"Connection: Upgrade", "Connection: keep-alive,  upgrade", 0},
	"connection over two lines":   {"Connection: Upgrade", "Connection: keep-alive\r\nConnection: upgrade", 0},
	"padded token":                {"a.b-c", "YWJj==", 0},
	"longest instance":            {"i-1", strings.Repeat("Z", 64), 0},
	"POST":                        {"GET", "POST", 405},
	"HEAD":                        {"GET", "HEAD", 405},
	"HTTP/1.0":                    {"HTTP/1.1", "HTTP/1.0", 426},
	"no upgrade":                  {"Upgrade: sandbox-supervisor/1\r\n", "", 426},
	"upgrade to something else":   {"sandbox-supervisor/1", "websocket", 426},
	"upgrade to a later version":  {"sandbox-supervisor/1", "sandbox-supervisor/2", 426},
	"connection does not say so":  {"Connection: Upgrade", "Connection: keep-alive", 426},
	"body":                        {"\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc", 400},
	"chunked body":                {"\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	"no instance":                 {"Sandbox-Agent-Instance: i-1\r\n", "", 400},
	"two instances":               {"Sandbox-Agent-Instance: i-1\r\n", "Sandbox-Agent-Instance: i-1\r\nSandbox-Agent-Instance: i-2\r\n", 400},
	"empty instance":              {"i-1", "", 400},
	"instance with an underscore": {"i-1", "i_1", 400},
	"instance with an escape":     {"i-1", "i\x1b[31m", 400},
	"long instance":               {"i-1", strings.Repeat("Z", 65), 400},
	"no version":                  {"Sandbox-Agent-Version: 1.2.3\r\n", "", 400},
	"version with a space":        {"1.2.3", "1 2 3", 400},
	"version not ASCII":           {"1.2.3", "1.2.\u00e9", 400},
	"long version":                {"1.2.3", strings.Repeat("1", 65), 400},
	"no token":                    {"Authorization: Bearer a.b-c\r\n", "", 401},
	"two tokens":                  {"Authorization: Bearer a.b-c\r\n", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", 401},
	"basic":                       {"Bearer a.b-c", "Basic YTpi", 401},
	"empty token":                 {"Bearer a.b-c", "Bearer ", 401},
	"token of padding":            {"a.b-c", "==", 401},
	"padding inside":              {"a.b-c", "a=b", 401},
	"token with a space":          {"a.b-c", "a b", 401},
	"token with a comma":          {"a.b-c", "a,b", 401},
}

func edit(old, new string) string { return strings.Replace(upgradeRequest, old, new, 1) }

func TestParseHello(t *testing.T) {
	for name, tc := range helloCases {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(edit(tc.old, tc.new))))
		if err != nil {
			// net/http refuses some by itself, with 400.
			if tc.status != 400 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		hello, refusal := mux.ParseHello(r)
		switch {
		case tc.status == 0:
			if refusal != nil || hello.Token.Reveal() == "" || hello.Instance == "" || hello.Version != "1.2.3" {
				t.Errorf("%s: %+v, %v", name, hello, refusal)
			}
		case refusal == nil || refusal.Status != tc.status || refusal.Reason == "":
			t.Errorf("%s: %v, want status %d", name, refusal, tc.status)
		}
	}
}

// Every refusal over the wire: its status, its headers, and the end of the
// connection.
func TestRefusalsOnTheWire(t *testing.T) {
	handler, _ := muxtest.Accept(t, config(nil))
	gw := muxtest.Serve(t, handler)
	for name, tc := range helloCases {
		if tc.status == 0 {
			continue
		}
		conn, err := net.Dial("unix", gw.Unix[len("unix:"):])
		if err != nil {
			t.Fatal(err)
		}
		write(t, conn, edit(tc.old, tc.new))
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: strings.Fields(edit(tc.old, tc.new))[0]})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if resp.StatusCode != tc.status || !resp.Close {
			t.Errorf("%s: status %d, close %v; want %d", name, resp.StatusCode, resp.Close, tc.status)
		}
		if upgrade := resp.Header.Get("Upgrade"); (upgrade == mux.Protocol) != (tc.status == 426) {
			t.Errorf("%s: Upgrade: %q", name, upgrade)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: body: %v", name, err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: the connection goes on", name)
		}
		_ = conn.Close()
	}
}

func TestHandshakeErrorWrite(t *testing.T) {
	for _, tc := range []struct {
		e     mux.HandshakeError
		name  string
		value string
	}{
		{mux.HandshakeError{Status: 503, Reason: "draining", RetryAfter: 1}, "Retry-After", "1"},
		{mux.HandshakeError{Status: 503, RetryAfter: time.Second}, "Retry-After", "1"},
		{mux.HandshakeError{Status: 503, RetryAfter: 1001 * time.Millisecond}, "Retry-After", "2"},
		{mux.HandshakeError{Status: 503}, "Retry-After", ""},
		{mux.HandshakeError{Status: 401}, "WWW-Authenticate", "Bearer"},
		{mux.HandshakeError{Status: 405}, "Allow", "GET"},
		{mux.HandshakeError{Status: 426}, "Upgrade", mux.Protocol},
		{mux.HandshakeError{Status: 409, Reason: "x"}, "Content-Type", "text/plain; charset=utf-8"},
		{mux.HandshakeError{Status: 403, Reason: "x"}, "Connection", "close"},
	} {
		w := httptest.NewRecorder()
		tc.e.Write(w)
		if w.Code != tc.e.Status || w.Header().Get(tc.name) != tc.value || w.Body.String() != tc.e.Reason+"\n" {
			t.Errorf("%+v: %d %v %q", tc.e, w.Code, w.Header(), w.Body)
		}
	}
}

// What the gateway refuses with is what the agent learns.
func TestDialLearnsTheRefusal(t *testing.T) {
	refusals := make(chan *mux.HandshakeError, 1)
	gw := muxtest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { (<-refusals).Write(w) }))
	for _, want := range []mux.RefusedError{
		{Status: 401, Reason: "token expired"},
		{Status: 403, Reason: "not this sandbox"},
		{Status: 409, RetryAfter: time.Minute, Reason: "another live session holds the sandbox"},
		{Status: 426, Reason: "use version 2"},
		{Status: 503, RetryAfter: 5 * time.Second, Reason: "draining"},
		{Status: 500},
	} {
		for _, address := range []string{gw.Unix, gw.HTTPS} {
			refusals <- &mux.HandshakeError{Status: want.Status, Reason: want.Reason, RetryAfter: want.RetryAfter}
			s, err := gw.Dialer(address).Dial(context.Background(), config(nil))
			var refused *mux.RefusedError
			if s != nil || !errors.As(err, &refused) || *refused != want {
				t.Errorf("%v, want %+v", err, want)
			}
		}
	}
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: sandbox-supervisor/1\r\n\r\n"

// answers are what a gateway may say; early is what follows a 101.
var answers = map[string]struct {
	text  string
	early string
	err   error
}{
	"101":                          {switching, "", nil},
	"101 and frames":               {switching + "early bytes", "early bytes", nil},
	"interim answers":              {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + switching, "", nil},
	"101 for another protocol":     {strings.Replace(switching, "supervisor/1", "supervisor/2", 1), "", mux.ErrBadResponse},
	"101 without Connection":       {strings.Replace(switching, "Connection", "Other", 1), "", mux.ErrBadResponse},
	"SSH":                          {"SSH-2.0-OpenSSH_9.6\r\n\r\n", "", mux.ErrBadResponse},
	"head too large":               {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), "", mux.ErrBadResponse},
	"many interim answers":         {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10_000) + switching, "", mux.ErrBadResponse},
	"no answer":                    {"", "", io.ErrUnexpectedEOF},
	"half an answer":               {switching[:40], "", io.ErrUnexpectedEOF},
	"status 99":                    {"HTTP/1.1 099 Odd\r\n\r\n", "", mux.ErrBadResponse},
	"refused":                      {"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno\r\n", "", &mux.RefusedError{Status: 403, Reason: "no"}},
	"refused, chunked":             {"HTTP/1.1 403 F\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", "", &mux.RefusedError{Status: 403, Reason: "no"}},
	"refused, until close":         {"HTTP/1.1 403 F\r\nConnection: close\r\n\r\nno", "", &mux.RefusedError{Status: 403, Reason: "no"}},
	"longest reason":               {refusal(strings.Repeat("r", 200)), "", &mux.RefusedError{Status: 403, Reason: strings.Repeat("r", 200)}},
	"reason too long":              {refusal(strings.Repeat("r", 201)), "", &mux.RefusedError{Status: 403}},
	"reason with an escape":        {refusal("\x1b[2J"), "", &mux.RefusedError{Status: 403}},
	"reason not ASCII":             {refusal("\u00e9"), "", &mux.RefusedError{Status: 403}},
	"reason of two lines":          {refusal("a\nb"), "", &mux.RefusedError{Status: 403}},
	"retry at a date":              {"HTTP/1.1 503 S\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n", "", &mux.RefusedError{Status: 503}},
	"retry after a negative delay": {"HTTP/1.1 503 S\r\nRetry-After: -5\r\nContent-Length: 0\r\n\r\n", "", &mux.RefusedError{Status: 503}},
	"retry after an eternity":      {"HTTP/1.1 503 S\r\nRetry-After: 99999999999999\r\nContent-Length: 0\r\n\r\n", "", &mux.RefusedError{Status: 503}},
	"moved":                        {"HTTP/1.1 302 Found\r\nLocation: https://elsewhere\r\nContent-Length: 0\r\n\r\n", "", &mux.RefusedError{Status: 302}},
	"OK is a refusal":              {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", &mux.RefusedError{Status: 200}},
}

func refusal(reason string) string {
	return "HTTP/1.1 403 Forbidden\r\nContent-Length: " + strconv.Itoa(len(reason)) + "\r\n\r\n" + reason
}

func TestAnswers(t *testing.T) {
	for name, tc := range answers {
		early, err := mux.ReadAnswer(strings.NewReader(tc.text))
		var want, got *mux.RefusedError
		switch {
		case errors.As(tc.err, &want):
			if !errors.As(err, &got) || *got != *want {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		case !errors.Is(err, tc.err) || string(early) != tc.early:
			t.Errorf("%s: %q, %v; want %q, %v", name, early, err, tc.early, tc.err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") || err != nil && strings.Contains(err.Error(), "SSH") {
			t.Errorf("%s: the peer's bytes are in %q", name, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, tc := range answers {
		f.Add([]byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r := bytes.NewReader(p)
		early, err := mux.ReadAnswer(r)
		if taken := len(p) - r.Len(); taken > mux.MaxHead {
			t.Errorf("took %d bytes", taken)
		}
		if err == nil && !bytes.HasSuffix(p[:len(p)-r.Len()], early) {
			t.Error("early bytes are not those that followed")
		}
		var refused *mux.RefusedError
		if errors.As(err, &refused) && (len(refused.Reason) > 200 || refused.RetryAfter < 0) {
			t.Errorf("%+v", refused)
		}
		if err != nil {
			for _, c := range err.Error() {
				if c < ' ' || c > '~' {
					t.Fatalf("%q", err)
				}
			}
		}
	})
}

func FuzzParseHello(f *testing.F) {
	for _, tc := range helloCases {
		f.Add([]byte(edit(tc.old, tc.new)))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p)))
		if err != nil {
			return
		}
		hello, refusal := mux.ParseHello(r)
		if refusal != nil {
			if refusal.Status < 400 || refusal.Reason == "" || hello != (mux.Hello{}) {
				t.Errorf("%+v, %+v", hello, refusal)
			}
			return
		}
		for _, s := range []string{hello.Instance, hello.Version, hello.Token.Reveal()} {
			if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
				t.Errorf("accepted %q", s)
			}
		}
	})
}

func TestValidate(t *testing.T) {
	good := func() *mux.Dialer {
		return &mux.Dialer{
			Gateway: "https://gw.example.com:443", Instance: "i", Version: "v",
			Token: func() (secret.String, error) { return secret.New("t"), nil },
		}
	}
	for gateway, fault := range map[string]string{
		"https://gw.example.com:443":             "",
		"https://gw.example.com:443/":            "",
		"https://[::1]:17690":                    "",
		"https://127.0.0.1:17690":                "",
		"unix:/run/gw.sock":                      "",
		"":                                       "is empty",
		"gw.example.com:443":                     `scheme "gw.example.com"`,
		"http://gw.example.com:80":               `scheme "http"`,
		"https://gw.example.com":                 "has no port",
		"https://gw.example.com:0":               "port is not between 1 and 65535",
		"https://gw.example.com:65536":           "port is not between 1 and 65535",
		"https://:443":                           "has no host",
		"https:gw:443":                           "has no host",
		"https://user:hunter2@gw:443":            "has a user name or password",
		"https://gw:443/path":                    "has a path",
		"https://gw:443?q":                       "has a path, query",
		"https://gw:443/#f":                      "fragment",
		"https://g w:443":                        "is not a URL",
		"https://g\"w:443":                       "character that no host",
		"https://gw,evil:443":                    "character that no host",
		"https://user:hunter2@g w:443":           "is not a URL",
		"unix:relative":                          "not absolute",
		"unix:":                                  "not absolute",
		"unix:/" + strings.Repeat("x", 107):      "longer than 107 bytes",
		"unix:/a\x00b":                           "NUL",
		"https://gw:443\r\nX-Injected: yes":      "is not a URL",
		"https://gw%0d%0aX-Injected:%20yes:443/": "is not a URL",
	} {
		d := good()
		d.Gateway = gateway
		err := d.Validate()
		switch {
		case fault == "" && err != nil:
			t.Errorf("%q: %v", gateway, err)
		case fault != "" && (err == nil || !strings.Contains(err.Error(), fault) || !strings.HasPrefix(err.Error(), "gateway: ")):
			t.Errorf("%q: %v, want %q", gateway, err, fault)
		case err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "it must be https://HOST:PORT or unix:/")):
			t.Errorf("%q: %v", gateway, err)
		}
	}
	for field, spoil := range map[string]func(*mux.Dialer){
		"token":    func(d *mux.Dialer) { d.Token = nil },
		"instance": func(d *mux.Dialer) { d.Instance = "a b" },
		"version":  func(d *mux.Dialer) { d.Version = "" },
	} {
		d := good()
		spoil(d)
		if err := d.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
		if s, err := d.Dial(context.Background(), mux.Config{}); s != nil || err == nil {
			t.Errorf("%s: dialled", field)
		}
	}
}

func TestDialErrors(t *testing.T) {
	handler, _ := muxtest.Accept(t, config(nil))
	gw := muxtest.Serve(t, handler)
	noToken := errors.New("no token")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	var opErr *net.OpError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	for name, tc := range map[string]struct {
		spoil func(*mux.Dialer)
		cfg   mux.Config
		want  func(error) bool
	}{
		"token source fails": {func(d *mux.Dialer) {
			d.Token = func() (secret.String, error) { return secret.String{}, noToken }
		}, mux.Config{}, func(err error) bool { return errors.Is(err, noToken) && errors.Is(err, mux.ErrToken) }},
		"empty token": {func(d *mux.Dialer) {
			d.Token = func() (secret.String, error) { return secret.String{}, nil }
		}, mux.Config{}, func(err error) bool { return errors.Is(err, mux.ErrToken) }},
		"token with a line end": {func(d *mux.Dialer) {
			d.Token = func() (secret.String, error) { return secret.New("hunter2\r\nX: y"), nil }
		}, mux.Config{}, func(err error) bool { return errors.Is(err, mux.ErrToken) && !strings.Contains(err.Error(), "hunter2") }},
		"too many streams": {func(*mux.Dialer) {}, mux.Config{MaxStreams: mux.Backlog}, func(err error) bool { return strings.Contains(err.Error(), "319") }},
		"nobody listens": {
			func(d *mux.Dialer) { d.Gateway = "https://" + closed.Addr().String() },
			mux.Config{},
			func(err error) bool { return errors.As(err, &opErr) },
		},
		"unknown authority": {func(d *mux.Dialer) { d.TLS = nil }, mux.Config{}, func(err error) bool { return errors.As(err, &unknown) }},
		// T17: the error names both times.
		"clock behind": {func(d *mux.Dialer) {
			d.TLS.Time = func() time.Time { return time.Date(1999, 1, 2, 3, 4, 5, 0, time.UTC) }
		}, mux.Config{}, func(err error) bool {
			return errors.As(err, &invalid) && strings.Contains(err.Error(), "1999-01-02T03:04:05Z") &&
				strings.Contains(err.Error(), invalid.Cert.NotBefore.Format("2006-01-02"))
		}},
		"TLS where none is": {func(d *mux.Dialer) { d.Gateway = "https://" + plainServer(t) }, mux.Config{}, func(err error) bool {
			var record tls.RecordHeaderError
			return errors.As(err, &record)
		}},
	} {
		d := gw.Dialer(gw.HTTPS)
		tc.spoil(d)
		if s, err := d.Dial(context.Background(), tc.cfg); s != nil || err == nil || !tc.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// plainServer answers "hello" to whoever connects.
func plainServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = fmt.Fprintln(conn, "hello, this is no TLS")
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return l.Addr().String()
}

// A peer that says nothing is given up after 10 s, in TLS and in HTTP; the
// caller's context can end it earlier.
func TestSilentGatewayIsGivenUp(t *testing.T) {
	for _, gateway := range []string{"https://localhost:1", "unix:/x"} {
		t.Run(gateway, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				for _, limit := range []time.Duration{time.Hour, 3 * time.Second} {
					a, g := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, g) }()
					d := &mux.Dialer{Gateway: gateway, Instance: "i", Version: "v", Token: func() (secret.String, error) { return secret.New("t"), nil }}
					ctx, cancel := context.WithTimeout(context.Background(), limit)
					start := time.Now()
					_, err := mux.DialOver(ctx, d, a, mux.Config{})
					cancel()
					if took := time.Since(start); took != min(limit, mux.HandshakeTimeout) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v after %v", err, took)
					}
				}
			})
		})
	}
}
