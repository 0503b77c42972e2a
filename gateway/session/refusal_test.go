// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// refusal is a handshake that contract 5 refuses.
type refusal struct {
	name    string
	token   func(t *testing.T, w *world) secret.String
	sandbox string // what the agent believes
	prepare func(*world)
	status  int
	retry   bool
	label   string // of the metric
}

func valid(t *testing.T, w *world) secret.String { return w.token(t, "sandbox-1", 3) }

func refusals() []refusal {
	other := func(t *testing.T, _ *world) secret.String {
		token, _, err := newIdentity(t, time.Now).Issue("sandbox-1", 3)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	of := func(sandbox string, generation uint64) func(*testing.T, *world) secret.String {
		return func(t *testing.T, w *world) secret.String { return w.token(t, sandbox, generation) }
	}
	return []refusal{
		{name: "no token at all", token: func(*testing.T, *world) secret.String { return secret.New("nonsense") }, status: 401, label: "unauthorized"},
		{name: "the token of another gateway", token: other, status: 401, label: "unauthorized"},
		{name: "the token of another sandbox", token: valid, sandbox: "sandbox-2", status: 403, label: "forbidden"},
		{name: "a deleted sandbox", token: of("sandbox-9", 1), status: 403, label: "forbidden"},
		{
			name: "a stopped sandbox", token: of("sandbox-2", 1), status: 403, label: "forbidden",
			prepare: func(w *world) { w.dir.change(func(d *directory) { d.sandboxes["sandbox-2"] = Sandbox{1, false} }) },
		},
		{name: "an earlier generation", token: of("sandbox-1", 2), status: 403, label: "forbidden"},
		{name: "a later generation", token: of("sandbox-1", 4), status: 403, label: "forbidden"},
		{
			name: "a store that does not answer", token: valid, status: 503, retry: true, label: "unavailable",
			prepare: func(w *world) { w.dir.change(func(d *directory) { d.fail = errStore }) },
		},
		{
			name: "a gateway that drains", token: valid, status: 503, retry: true, label: "unavailable",
			prepare: func(w *world) { w.draining.Store(true) },
		},
	}
}

// dial opens a real session, or returns the refusal.
func dial(g *muxtest.Gateway, address string, token secret.String, instance, sandbox string) (*mux.Session, error) {
	d := g.Dialer(address)
	d.Token = func() (secret.String, error) { return token, nil }
	d.Instance, d.Sandbox = instance, sandbox
	return d.Dial(context.Background(), mux.Config{})
}

// Each refusal comes with its status, is counted, and disturbs nobody.
func TestRefusals(t *testing.T) {
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t)
			g := muxtest.Serve(t, w)
			bystander := w.agent(t, "instance-1")
			token := r.token(t, w)
			if r.prepare != nil {
				r.prepare(w)
			}
			before := w.count(t, handshakes, r.label)
			for _, address := range []string{g.Unix, g.HTTPS} {
				s, err := dial(g, address, token, "instance-1", r.sandbox)
				var refused *mux.RefusedError
				if !errors.As(err, &refused) {
					t.Fatalf("%s: got session %v and error %v, want status %d", address, s, err, r.status)
				}
				if refused.Status != r.status || (refused.RetryAfter > 0) != r.retry || refused.Reason == "" {
					t.Errorf("%s: refused with %+v, want status %d", address, refused, r.status)
				}
				if text := token.Reveal(); strings.Contains(refused.Error(), text) {
					t.Error("the refusal repeats the token")
				}
			}
			if n := w.count(t, handshakes, r.label) - before; n != 2 {
				t.Errorf("counted as %s %d times, want 2", r.label, n)
			}
			bystander.report(t, good(2, 11))
			w.wantAnswer(t, 11, probe.Healthy, 0)
		})
	}
}

// Agents dial all the time while the store does not answer: a line a minute.
func TestLookUpsThatFailAreLoggedSparingly(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var out bytes.Buffer
		w := build(t, slog.New(slog.NewJSONHandler(&out, nil)), newIdentity(t, time.Now))
		w.dir.change(func(d *directory) { d.fail = errStore })
		dials := func(n int) {
			for range n {
				if _, refused := w.attach(t, w.token(t, "sandbox-1", 3), "instance-1"); refused == nil || refused.Status != 503 {
					t.Fatalf("refused with %v", refused)
				}
			}
		}
		dials(100)
		testkit.Advance(time.Minute)
		dials(100)
		w.stop()
		const line = `"level":"WARN","msg":"sandbox look-up failed"`
		if got := out.String(); strings.Count(got, line) != 2 || strings.Count(got, "\n") != 2 || !strings.Contains(got, `"left_out":99`) {
			t.Errorf("200 dials in a minute were logged as\n%s", got)
		}
	})
}

func TestAnExpiredToken(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.token(t, "sandbox-1", 3)
		testkit.Advance(lifetime - time.Second)
		if s, refused := w.attach(t, token, "instance-1"); refused != nil {
			t.Fatalf("refused one second early: %v", refused)
		} else {
			_ = s.Close()
		}
		testkit.Advance(time.Second)
		_, refused := w.attach(t, token, "instance-1")
		if refused == nil || refused.Status != 401 || !strings.Contains(refused.Reason, "expired") {
			t.Errorf("an expired token: %v", refused)
		}
	})
}

// raw sends bytes to the supervisor listener and returns the status and header
// of the answer.
func raw(t *testing.T, g *muxtest.Gateway, text string) (*http.Response, net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(g.Unix, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp, conn, br
}

func (w *world) request(t *testing.T, method, path, header string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + w.token(t, "sandbox-1", 3).Reveal() +
		"\r\n" + mux.HeaderInstance + ": instance-1\r\n" + mux.HeaderVersion + ": 1\r\n" + header + "\r\n"
}

const upgrade = "Connection: Upgrade\r\nUpgrade: " + mux.Protocol + "\r\n"

func TestRequestsThatAreNoHandshake(t *testing.T) {
	w := newWorld(t)
	g := muxtest.Serve(t, w)
	for _, tc := range []struct {
		name, method, header string
		status               int
		label                string
	}{
		{"no upgrade", "GET", "", 426, "upgrade_required"},
		{"another protocol", "GET", "Connection: Upgrade\r\nUpgrade: websocket\r\n", 426, "upgrade_required"},
		{"POST", "POST", upgrade, 405, "bad_request"},
		{"a body", "GET", upgrade + "Content-Length: 1\r\n", 400, "bad_request"},
		{"two instances", "GET", upgrade + mux.HeaderInstance + ": instance-2\r\n", 400, "bad_request"},
	} {
		before := w.count(t, handshakes, tc.label)
		resp, _, _ := raw(t, g, w.request(t, tc.method, mux.Path, tc.header))
		if resp.StatusCode != tc.status {
			t.Errorf("%s: status %d, want %d", tc.name, resp.StatusCode, tc.status)
		}
		if tc.status == 426 && resp.Header.Get("Upgrade") != mux.Protocol {
			t.Errorf("%s: does not say what to upgrade to: %v", tc.name, resp.Header)
		}
		if n := w.count(t, handshakes, tc.label) - before; n != 1 {
			t.Errorf("%s: counted as %s %d times", tc.name, tc.label, n)
		}
	}
}

// What is no frame after the 101 ends that session, is counted, and disturbs
// nobody.
func TestGarbageAfterTheUpgrade(t *testing.T) {
	relay := "\x00\x01\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00" + // opens stream 1
		"\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x03" + "\x02\x00\x00" // of kind relay, without header
	for _, tc := range []struct {
		name, bytes, want string
	}{
		{"garbage", strings.Repeat("\xff", 64), "protocol"},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "protocol"},
		{"a frame too large", "\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff", "protocol"},
		{"a relay stream", relay, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			g := muxtest.Serve(t, w)
			w.dir.change(func(d *directory) { d.sandboxes["sandbox-1"] = Sandbox{3, true} })
			bystander, err := dial(g, g.Unix, w.token(t, "sandbox-2", 1), "instance-2", "")
			if err != nil {
				t.Fatal(err)
			}
			defer bystander.Close()
			other := connect(t, bystander)
			other.desired(t)
			resp, conn, br := raw(t, g, w.request(t, "GET", mux.Path, upgrade)+tc.bytes)
			if resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("status %d", resp.StatusCode)
			}
			if tc.want == "" { // the stream is reset, the session goes on
				if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				for reset := false; !reset; {
					var h [12]byte
					if _, err := io.ReadFull(br, h[:]); err != nil {
						t.Fatalf("the stream was not reset: %v", err)
					}
					reset = h[3]&8 != 0
				}
				other.report(t, good(1, 11))
				if w.Len() != 2 {
					t.Errorf("%d sessions, want 2", w.Len())
				}
				return
			}
			if _, err := io.Copy(io.Discard, br); err != nil {
				t.Logf("the connection ended with %v", err)
			}
			eventually(t, "the end is counted as "+tc.want, func() bool { return w.count(t, ends, tc.want) == 1 })
			other.report(t, good(1, 11))
			if w.Len() != 1 {
				t.Errorf("%d sessions, want 1", w.Len())
			}
		})
	}
}

// Two agents with one identity: the second eviction within a minute is refused
// with 409 and a time to come back, and counted.
func TestTwoAgentsWithOneIdentity(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.token(t, "sandbox-1", 3)
		a := w.agent(t, "instance-a")
		b := w.agent(t, "instance-b")
		testkit.Wait()
		if open(a.session) || w.count(t, conflicts, "") != 1 || w.count(t, ends, "displaced") != 1 {
			t.Fatalf("the older agent is still there, or nobody counted: %d conflicts", w.count(t, conflicts, ""))
		}
		b.reportOn(t, 2, 11)
		for _, step := range []struct {
			pass  time.Duration
			retry time.Duration
		}{{time.Second, 59 * time.Second}, {58 * time.Second, time.Second}} {
			testkit.Advance(step.pass)
			_, refused := w.attach(t, token, "instance-a")
			if refused == nil || refused.Status != 409 || refused.RetryAfter != step.retry {
				t.Fatalf("refused %+v, want 409 for %v", refused, step.retry)
			}
		}
		if !open(b.session) || w.count(t, conflicts, "") != 3 || w.count(t, handshakes, "conflict") != 2 {
			t.Errorf("%d conflicts, %d refusals", w.count(t, conflicts, ""), w.count(t, handshakes, "conflict"))
		}
		if n := w.logs.Count("two agents claim one sandbox"); n != 3 {
			t.Errorf("logged %d times", n)
		}
		testkit.Advance(time.Second)
		w.agent(t, "instance-a")
		testkit.Wait()
		if open(b.session) {
			t.Error("after a minute the newcomer does not win")
		}
	})
}

// A handshake that was admitted and is overtaken before it is upgraded gets its
// answer as a closed session, and is counted as what it would have got.
func TestOvertakenHandshakes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faster func(t *testing.T, w *world)
		label  string
	}{
		{"by another agent, whose eviction was the last for now", func(t *testing.T, w *world) { w.agent(t, "instance-b") }, "conflict"},
		{"by the next generation", func(t *testing.T, w *world) {
			w.dir.change(func(d *directory) { d.sandboxes["sandbox-1"] = Sandbox{4, true} })
			if _, refused := w.attach(t, w.token(t, "sandbox-1", 4), "instance-c"); refused != nil {
				t.Fatal(refused)
			}
		}, "forbidden"},
		{"by the end of the server", func(_ *testing.T, w *world) { w.stop() }, "unavailable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				w := newWorld(t)
				w.agent(t, "instance-0")
				a, g := net.Pipe()
				before := w.count(t, handshakes, tc.label)
				refused := w.open(hello(w.token(t, "sandbox-1", 3), "instance-a"), func(cfg mux.Config) (*mux.Session, error) {
					tc.faster(t, w)
					return mux.NewGatewaySession(g, cfg)
				})
				if refused != nil {
					t.Fatalf("refused before the upgrade: %v", refused)
				}
				if _, err := a.Read(make([]byte, 1)); err == nil {
					t.Error("the session that was overtaken is open")
				}
				if n := w.count(t, handshakes, tc.label) - before; n != 1 {
					t.Errorf("counted as %s %s times", tc.label, strconv.Itoa(n))
				}
			})
		})
	}
}

// An agent that has gone before the answer leaves nothing behind.
func TestAFailedUpgrade(t *testing.T) {
	w := newWorld(t)
	gone := errors.New("gone")
	if refused := w.open(hello(w.token(t, "sandbox-1", 3), "instance-1"), func(mux.Config) (*mux.Session, error) { return nil, gone }); refused != nil {
		t.Errorf("refused: %v", refused)
	}
	if w.Len() != 0 || w.count(t, handshakes, "bad_request") != 1 || w.cache.Counts().Live != 0 {
		t.Errorf("%d sessions", w.Len())
	}
}
