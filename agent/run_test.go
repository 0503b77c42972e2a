// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/agent/command"
	supervisorv1 "github.com/sandbox-agent/sandbox-agent/api/supervisor/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/mux"
	"github.com/sandbox-agent/sandbox-agent/mux/muxtest"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// running is an agent under test, with real sockets.
type running struct {
	*Agent
	cancel func()
	ready  chan struct{}
	ended  chan result
}

func run(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.OpsListen == "" {
		cfg.OpsListen = "127.0.0.1:0"
	}
	if cfg.Logger == nil {
		cfg.Logger = testkit.Logger(t)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Agent: a, cancel: cancel, ready: make(chan struct{}), ended: make(chan result, 1)}
	go func() {
		code, err := a.Run(ctx, Hooks{Ready: func() { close(r.ready) }})
		r.ended <- result{code, err}
	}()
	t.Cleanup(func() { cancel(); r.end(t) })
	return r
}

// end waits for the end of Run and returns its result.
func (r *running) end(t testing.TB) result {
	t.Helper()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case res := <-r.ended:
		r.ended <- res
		return res
	case <-timeout.C:
		t.Fatal("Run does not return")
	}
	return result{}
}

// get asks the ops listener.
func (r *running) get(t testing.TB, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + r.OpsAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (r *running) statusJSON(t testing.TB) Status {
	t.Helper()
	code, body := r.get(t, "/status")
	var s Status
	dec := json.NewDecoder(strings.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil || code != 200 {
		t.Fatalf("status %d %v: %s", code, err, body)
	}
	return s
}

// T15: an agent is up at once, whatever its gateway does.
func TestReadyWithoutGateway(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, gateway := range map[string]string{
		"nobody listens":   "https://127.0.0.1:1",
		"no such name":     "https://gateway.invalid:17690",
		"no such socket":   "unix:/nowhere/gateway.sock",
		"it never answers": "https://" + silent.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			r := run(t, Config{Gateway: gateway, Token: secret.New("token")})
			<-r.ready
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("ready after %v", took)
			}
			for path, want := range map[string]int{"/livez": 200, "/readyz": 503, "/status": 200, "/metrics": 200, "/nothing": 404} {
				if code, body := r.get(t, path); code != want {
					t.Errorf("%s answers %d: %s", path, code, body)
				}
			}
			if s := r.statusJSON(t); s.Ready || s.Gateway == nil || s.Gateway.Connected || s.Gateway.Address != gateway || len(s.Services) != 0 {
				t.Errorf("status %+v", s)
			}
			r.cancel()
			if res := r.end(t); res != (result{}) {
				t.Errorf("Run returned %+v", res)
			}
		})
	}
}

func TestAnAgentAlone(t *testing.T) {
	healthy := atomic.Bool{}
	healthy.Store(true)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer target.Close()
	port := uint16(target.Listener.Addr().(*net.TCPAddr).Port)
	ready := svc("ready", 0, port)
	ready.Target.Path = "/readyz"
	r := run(t, Config{Services: []probe.Service{svc("", 0, port), ready, svc("nobody", 0, 1)}})
	var s Status
	eventually(t, "two services healthy", func() bool {
		s = r.statusJSON(t)
		return len(s.Services) == 3 && s.Services[0].State == "HEALTHY" && s.Services[2].State == "HEALTHY" && s.Services[1].Reason == "Refused"
	})
	if s.Gateway != nil || s.Instance == "" || s.Version == "" {
		t.Errorf("status %+v", s)
	}
	if got := s.Services[2]; got.Name != "ready" || got.Path != "/readyz" || got.Code != 200 || got.Address != "127.0.0.1" || got.Age < 0 || got.Latency <= 0 || got.Reason != "OK" {
		t.Errorf("a healthy service: %+v", got)
	}
	if got := s.Services[1]; got.Name != "nobody" || got.State != "UNKNOWN" || got.Code != 0 || got.Address != "" {
		t.Errorf("a port that nobody listens on: %+v", got)
	}
	if got := r.Summary(time.Now()); got != "3 services: 1 ready, 1 responsive, 1 unknown; no gateway" {
		t.Errorf("summary %q", got)
	}
	eventually(t, "readiness", func() bool { code, _ := r.get(t, "/readyz"); return code == 200 })
	if _, body := r.get(t, "/metrics"); !strings.Contains(body, `sandbox_agent_service_healthy{port="`) || !strings.Contains(body, "sandbox_agent_build_info{") {
		t.Errorf("metrics\n%s", body)
	}
	if err := r.SetServices([]probe.Service{svc("web", 0, port)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new list", func() bool { s := r.statusJSON(t); return len(s.Services) == 1 && s.Services[0].State == "HEALTHY" })
	if err := r.SetServices([]probe.Service{svc("a", 0, 1), svc("a", 0, 2)}); err == nil {
		t.Error("a list with a name twice is taken")
	}
	if _, body := r.get(t, "/metrics"); strings.Contains(body, `service="ready"`) {
		t.Error("the series of a service that is gone are there")
	}
	r.cancel()
	if res := r.end(t); res != (result{}) {
		t.Errorf("Run returned %+v", res)
	}
}

// connected returns a gateway on real sockets and an agent of it.
func connected(t *testing.T, edit func(*Config), desired ...probe.Service) (*gateway, *running) {
	t.Helper()
	g := newGateway(t, desired...)
	sockets := muxtest.Serve(t, g)
	cfg := Config{Gateway: sockets.Unix, Token: secret.New("token")}
	if edit != nil {
		edit(&cfg)
	}
	return g, run(t, cfg)
}

// hadStop waits for a session's last report and returns its notice.
func hadStop(t *testing.T, g *gateway) *supervisorv1.StopNotice {
	t.Helper()
	var stop *supervisorv1.StopNotice
	eventually(t, "the last report", func() bool {
		all := g.all()
		if len(all) > 0 {
			stop = all[len(all)-1].last().GetStop()
		}
		return stop != nil
	})
	return stop
}

// An agent that is asked to stop says so, and has 2 s for it.
func TestStopping(t *testing.T) {
	for name, deaf := range map[string]bool{"a gateway that listens": false, "a gateway that does not": true} {
		t.Run(name, func(t *testing.T) {
			g, r := connected(t, nil)
			eventually(t, "a session", func() bool { live, _, _ := r.link.status(); return live })
			g.set(func(g *gateway) { g.deaf = deaf })
			began := time.Now()
			r.cancel()
			if res := r.end(t); res != (result{}) {
				t.Errorf("Run returned %+v", res)
			}
			if took := time.Since(began); took > lastReport+time.Second || !deaf && took > lastReport-500*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			if !deaf {
				if stop := hadStop(t, g); stop.GetCause() != supervisorv1.StopNotice_CAUSE_AGENT_STOPPING {
					t.Errorf("the last report says %v", stop)
				}
			}
		})
	}
}

// The command's exit code is the agent's, and the gateway learns it.
func TestTheCommandsExitCode(t *testing.T) {
	for _, tc := range []struct {
		name string
		argv []string
		code int
		fail bool
	}{
		{"success", []string{"/bin/sh", "-c", "exit 0"}, 0, false},
		{"failure", []string{"/bin/sh", "-c", "exit 7"}, 7, false},
		{"a signal", []string{"/bin/sh", "-c", "kill -9 $$"}, 137, false},
		{"a program that does not exist", []string{"/nowhere/program"}, command.CodeNotFound, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate")
			g, r := connected(t, func(c *Config) {
				argv := tc.argv
				if !tc.fail { // not before the session is there
					argv = []string{"/bin/sh", "-c", "until [ -e " + gate + " ]; do read -t 0.05 x </dev/zero 2>/dev/null || :; done; " + tc.argv[2]}
				}
				c.Command = &command.Config{Argv: argv, Logger: testkit.Logger(t)}
			})
			if !tc.fail {
				eventually(t, "a session", func() bool { live, _, _ := r.link.status(); return live })
				put(t, gate, "")
			}
			res := r.end(t)
			if res.code != tc.code || (res.err != nil) != tc.fail {
				t.Errorf("Run returned %+v, want code %d", res, tc.code)
			}
			if tc.fail {
				return
			}
			stop := hadStop(t, g)
			if stop.GetCause() != supervisorv1.StopNotice_CAUSE_MAIN_PROCESS_EXITED || int(stop.GetExitCode()) != tc.code {
				t.Errorf("the gateway learns %v", stop)
			}
		})
	}
}

// An agent that is asked to stop ends its command, whose code does not count.
func TestStoppingEndsTheCommand(t *testing.T) {
	g, r := connected(t, func(c *Config) {
		c.Command = &command.Config{Argv: []string{"/bin/sh", "-c", "trap 'exit 9' TERM; while :; do read -t 1 x </dev/zero 2>/dev/null || :; done"}, Logger: testkit.Logger(t)}
	})
	eventually(t, "a session", func() bool { live, _, _ := r.link.status(); return live })
	r.cancel()
	if res := r.end(t); res != (result{}) {
		t.Errorf("Run returned %+v", res)
	}
	if stop := hadStop(t, g); stop.GetCause() != supervisorv1.StopNotice_CAUSE_AGENT_STOPPING {
		t.Errorf("the gateway learns %v", stop)
	}
}

// The end of a command is one line, and the agent is not ready before anybody
// hears that it stops.
func TestWhatEndsIsSaidOnce(t *testing.T) {
	logger, said := levels(t)
	a, err := New(Config{OpsListen: "127.0.0.1:0", Logger: logger, Command: &command.Config{Argv: []string{"true"}, Logger: logger}})
	if err != nil {
		t.Fatal(err)
	}
	stopping := false
	code, err := a.Run(t.Context(), Hooks{Stopping: func() { stopping = a.checker.Draining() }})
	if code != 0 || err != nil || !stopping {
		t.Errorf("%d %v, not ready when it stops: %v", code, err, stopping)
	}
	if log := said(); strings.Count(log, "ended") != 1 {
		t.Errorf("it logs %q", log)
	}
}

// The token of a file is read for each dial, and a renewed one is written back.
func TestTheTokenOnTheWire(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	put(t, file, "first\n")
	logger, logs := testkit.Logs(t)
	g, r := connected(t, func(c *Config) {
		c.Token, c.TokenFile, c.Sandbox, c.Logger = secret.String{}, file, "sandbox-1", logger
	})
	eventually(t, "a session", func() bool { return len(g.all()) == 1 })
	send := func(token string) {
		t.Helper()
		all := g.all()
		if err := all[len(all)-1].send(&supervisorv1.GatewayMessage_Token{Token: &supervisorv1.Token{Token: token}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{"", "two words", "line\nend", strings.Repeat("x", maxToken)} {
		send(token)
	}
	eventually(t, "the tokens that are none", func() bool { return logs.Count("the gateway has sent a token that is none") == 4 })
	if b, err := os.ReadFile(file); err != nil || string(b) != "first\n" {
		t.Errorf("the file holds %q (%v)", b, err)
	}
	send("second")
	eventually(t, "the renewed token in the file", func() bool { b, err := os.ReadFile(file); return err == nil && string(b) == "second\n" })
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info.Mode(), err)
	}
	g.newest(t, 1).end <- errors.New("again")
	eventually(t, "another session", func() bool { return len(g.all()) == 2 })
	put(t, file, "third\n")
	g.newest(t, 2).end <- errors.New("again")
	eventually(t, "a third session", func() bool { return len(g.all()) == 3 })
	g.mu.Lock()
	defer g.mu.Unlock()
	var got []string
	for _, h := range g.hellos {
		got = append(got, h.Token.Reveal())
		if h.Instance != r.instance {
			t.Errorf("instance %q in a handshake of %q", h.Instance, r.instance)
		}
	}
	if strings.Join(got, " ") != "first second third" {
		t.Errorf("dialled with %q", got)
	}
}

// The token is printed nowhere, whatever goes wrong.
func TestTheTokenIsPrintedNowhere(t *testing.T) {
	const token = "aVerySecretToken.withThreeParts.andNothingElse"
	fromFile := func(content string) func(*testing.T, *gateway, *Config) {
		return func(t *testing.T, _ *gateway, c *Config) {
			c.Token, c.TokenFile = secret.String{}, filepath.Join(t.TempDir(), "token")
			put(t, c.TokenFile, content)
		}
	}
	for name, spoil := range map[string]func(*testing.T, *gateway, *Config){
		"all is well":              func(*testing.T, *gateway, *Config) {},
		"the gateway refuses":      func(_ *testing.T, g *gateway, _ *Config) { g.refuse = &mux.HandshakeError{Status: 401, Reason: "no"} },
		"nobody listens":           func(_ *testing.T, _ *gateway, c *Config) { c.Gateway = "https://127.0.0.1:1" },
		"no bearer token":          func(_ *testing.T, _ *gateway, c *Config) { c.Token = secret.New(token + "\r\nX: y") },
		"a good file":              fromFile(token + "\n"),
		"a file that is too large": fromFile(strings.Repeat(token, 1000)),
		"a file with two lines":    fromFile(token + "\n" + token),
		"a file that is kept": func(t *testing.T, _ *gateway, c *Config) {
			fromFile(token)(t, nil, c)
			c.TokenKeep = filepath.Join(t.TempDir(), "missing", "kept")
		},
	} {
		t.Run(name, func(t *testing.T) {
			logs := &buffer{}
			g, r := func() (*gateway, *running) {
				g := newGateway(t, svc("web", 1, 1))
				sockets := muxtest.Serve(t, g)
				cfg := Config{Gateway: sockets.Unix, Token: secret.New(token)}
				cfg.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
				spoil(t, g, &cfg)
				return g, run(t, cfg)
			}()
			eventually(t, "a session, or an error", func() bool {
				live, _, err := r.link.status()
				return live || err != nil
			})
			if all := g.all(); len(all) > 0 {
				if err := all[0].send(&supervisorv1.GatewayMessage_Token{Token: &supervisorv1.Token{Token: token + "x"}}); err != nil {
					t.Fatal(err)
				}
				all[0].end <- errors.New("again")
				eventually(t, "another dial", func() bool { return r.counts.dials.Load() > 1 })
			}
			out := r.Summary(time.Now())
			for _, path := range []string{"/status", "/metrics", "/readyz?verbose", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"} {
				_, body := r.get(t, path)
				out += body
			}
			r.cancel()
			out += fmt.Sprintf("%v %+v", r.end(t), r.Agent.cfg) + logs.take()
			if !strings.Contains(out, "sandbox_agent_session_dials_total") || !strings.Contains(out, "level=") {
				t.Fatalf("this looks at nothing: %s", out)
			}
			for _, secret := range []string{token[:16], "withThreeParts", "andNothingElse"} {
				if strings.Contains(out, secret) {
					t.Errorf("the token is in\n%s", out)
				}
			}
		})
	}
}
