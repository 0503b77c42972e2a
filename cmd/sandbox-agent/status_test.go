// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/sandbox-agent/sandbox-agent/agent"
)

// answering returns the address of a server that answers as h does.
func answering(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func answeringStatus(t *testing.T, s agent.Status) string {
	return answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" {
			http.NotFound(w, r)
			return
		}
		json.NewEncoder(w).Encode(s)
	})
}

func sample() agent.Status {
	return agent.Status{
		Version: "1.2.3", Instance: "0e8f", Ready: true,
		Gateway: &agent.GatewayStatus{Address: "https://gateway.example:17690", Connected: true, Seconds: 3661.4},
		Services: []agent.ServiceStatus{
			{Name: "", Port: 8080, State: "HEALTHY", Reason: "OK", Code: 404, Age: 1.25, Latency: 0.0012, Address: "127.0.0.1"},
			{Name: "api", Port: 9000, Path: "/readyz", State: "UNHEALTHY", Reason: "Refused", Age: 2, Failures: 3},
			{Name: "new", Port: 1, State: "UNKNOWN"},
		},
	}
}

func TestStatusTable(t *testing.T) {
	const services = `SERVICE   PORT   CHECK          STATE       REASON    CODE   AGE    LATENCY   ADDRESS
""        8080   (any answer)   HEALTHY     OK        404    1.2s   1.2ms     127.0.0.1
"api"     9000   /readyz        UNHEALTHY   Refused   -      2.0s   0.0ms     -
"new"     1      (any answer)   UNKNOWN     -         -      -      -         -
`
	for name, c := range map[string]struct {
		edit func(*agent.Status)
		want string
	}{
		"connected": {func(*agent.Status) {}, "Agent 1.2.3, instance 0e8f, ready\nGateway \"https://gateway.example:17690\": connected for 1h1m1s\n" + services},
		"not connected": {func(s *agent.Status) {
			s.Ready, s.Gateway.Connected, s.Gateway.LastError = false, false, "dial tcp: refused"
		}, "Agent 1.2.3, instance 0e8f, not ready\nGateway \"https://gateway.example:17690\": not connected for 1h1m1s: \"dial tcp: refused\"\n" + services},
		"alone": {func(s *agent.Status) { s.Gateway = nil }, "Agent 1.2.3, instance 0e8f, ready\n" + services},
		"no services": {
			func(s *agent.Status) { s.Gateway, s.Services = nil, nil },
			"Agent 1.2.3, instance 0e8f, ready\nSERVICE   PORT   CHECK   STATE   REASON   CODE   AGE   LATENCY   ADDRESS\n",
		},
	} {
		s := sample()
		c.edit(&s)
		if got := agentDoes(nil, "status", "--ops-listen", answeringStatus(t, s)); got.code != 0 || got.stdout != c.want || got.stderr != "" {
			t.Errorf("%s: %d %s%s\nwant\n%s", name, got.code, got.stdout, got.stderr, c.want)
		}
	}
}

func TestStatusJSON(t *testing.T) {
	s := sample()
	addr := answeringStatus(t, s)
	var got agent.Status
	out := agentDoes(nil, "status", "-o", "json", "--ops-listen", addr)
	if err := json.Unmarshal([]byte(out.stdout), &got); err != nil || out.code != 0 || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v", out, err)
	}
	// The listener may be named by the environment; the flag wins.
	for _, c := range []struct {
		environ string
		args    []string
	}{
		{"SANDBOX_AGENT_OPS_LISTEN=" + addr, nil},
		{"SANDBOX_AGENT_OPS_LISTEN=127.0.0.1:1", []string{"--ops-listen", addr}},
	} {
		if again := agentDoes([]string{c.environ}, append([]string{"status", "-o", "json"}, c.args...)...); again.stdout != out.stdout {
			t.Errorf("%+v: %+v", c, again)
		}
	}
}

// Whoever answers on the port, if it is no agent, reaches no terminal.
func TestStatusPrintsNothingRaw(t *testing.T) {
	const evil = "x\x1b[2J\u009b31m\r\n\u202e\u200b\ufeff\x7f\U000e0001"
	s := agent.Status{
		Version: evil, Instance: evil, Gateway: &agent.GatewayStatus{Address: evil, LastError: evil},
		Services: []agent.ServiceStatus{{Name: evil, Path: evil, State: evil, Reason: evil, Address: evil}},
	}
	for _, format := range []string{"table", "json"} {
		got := agentDoes(nil, "status", "-o", format, "--ops-listen", answeringStatus(t, s))
		if raw := strings.IndexFunc(got.stdout, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); got.code != 0 || raw >= 0 {
			t.Errorf("%s: %d, raw at %d: %q %s", format, got.code, raw, got.stdout, got.stderr)
		}
		var back agent.Status
		if format == "json" && (json.Unmarshal([]byte(got.stdout), &back) != nil || !reflect.DeepEqual(back, s)) {
			t.Errorf("%q is not what was sent", got.stdout)
		}
	}
}

func TestStatusOfNoAgent(t *testing.T) {
	elsewhere := 0
	other := answering(t, func(w http.ResponseWriter, _ *http.Request) { elsewhere++; w.Write([]byte("{}")) })
	for name, c := range map[string]struct {
		addr string
		want string
	}{
		"nobody":        {"127.0.0.1:1", "no agent answers on 127.0.0.1:1: start one with sandbox-agent run, or name its listener with --ops-listen: "},
		"another":       {answering(t, http.NotFound), " answers 404: it is not an agent\n"},
		"a redirection": {answering(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "http://"+other, http.StatusFound) }), " answers 302: it is not an agent\n"},
		"no JSON":       {answering(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("\x1b[2J")) }), " does not answer as an agent does: "},
		"endless JSON": {answering(t, func(w http.ResponseWriter, _ *http.Request) {
			for range maxStatus/1024 + 1 {
				w.Write([]byte("[" + strings.Repeat(" ", 1023)))
			}
		}), " does not answer as an agent does: "},
	} {
		got := agentDoes(nil, "status", "--ops-listen", c.addr)
		if got.code != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, "sandbox-agent: ") || !strings.Contains(got.stderr, c.want) ||
			strings.Contains(got.stderr, "\x1b") || strings.Contains(got.stderr, "--help") {
			t.Errorf("%s: %d %q, want %q", name, got.code, got.stderr, c.want)
		}
	}
	if elsewhere != 0 {
		t.Error("the redirection was followed")
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
