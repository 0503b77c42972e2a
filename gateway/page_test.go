// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
	"github.com/sandbox-agent/sandbox-agent/probe"
)

// pageEvent is what the test reads of the page's events.
type pageEvent struct {
	Complete bool
	Services []struct {
		Sandbox, Name, State, Reason, Message, URL, Check, Phase string
		Code                                                     uint32
		Transitions                                              []struct{ State, Reason string }
	}
	Sandboxes []struct{ Name, Phase string }
}

// pageEvents opens the page's event stream.
func (r *running) pageEvents() *bufio.Reader {
	r.t.Helper()
	resp, err := httpClient(nil).Get(r.file.HTTP + "/page/events")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("the events are %d, %q", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return bufio.NewReader(resp.Body)
}

func nextEvent(t *testing.T, events *bufio.Reader) (e pageEvent) {
	t.Helper()
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			return e
		}
	}
}

// T09: the page says of every service what the API says of it.
func TestPageAgreesWithTheAPI(t *testing.T) {
	r := start(t, testConfig(t))
	r.untilReady()
	api := openshellv1.NewOpenShellClient(r.dial(true))
	create := func(name string, services ...string) string {
		req := &openshellv1.CreateSandboxRequest{Name: name}
		for i, s := range services {
			e := &openshellv1.SandboxServiceExposure{Service: s, TargetPort: uint32(8000 + i)}
			if i%2 == 1 {
				e.ReadinessCheck = &openshellv1.HttpReadinessCheck{Path: "/ready"}
			}
			req.ServiceExposures = append(req.ServiceExposures, e)
		}
		resp, err := api.CreateSandbox(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetSandbox().GetMetadata().GetId()
	}
	id := create("web", "", "ready", "down", "broken", "none")
	create("new", "api")
	create("idle")
	services, err := r.store.ServicesOf(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.lifecycle.Connected(t.Context(), id, 1, "i"); err != nil {
		t.Fatal(err)
	}
	r.cache.Connected(id, 1, 1, "i")
	now, desired := time.Now(), make(map[string]bool)
	var observed []health.Observation
	for _, svc := range services {
		o := health.Observation{ServiceID: svc.ID, Instance: "i", Revision: svc.Revision, State: probe.Healthy, Code: 200, Latest: now, Conclusive: now, Since: now}
		switch svc.Name {
		case "down":
			o.State, o.Outcome, o.Reason, o.Code, o.Failures = probe.Unhealthy, probe.Fail, probe.Refused, 0, 3
		case "broken":
			o.State, o.Outcome, o.Reason, o.Code, o.Failures = probe.Unhealthy, probe.Fail, probe.BadStatus, 503, 3
		case "none":
			continue
		}
		desired[svc.ID] = true
		observed = append(observed, o)
	}
	r.cache.Reported(id, 1, 1, observed, desired)

	var says, page []string
	for _, sandbox := range []string{"web", "new"} {
		list, err := api.ListServices(t.Context(), &openshellv1.ListServicesRequest{Sandbox: sandbox})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.GetServices() {
			e, h := s.GetEndpoint(), s.GetHealth()
			state := strings.TrimPrefix(h.GetState().String(), "SERVICE_HEALTH_STATE_")
			says = append(says, fmt.Sprint(e.GetSandbox(), "/", e.GetName(), " ", state, " ", h.GetReason(), " ", h.GetHttpStatusCode(), " ", s.GetUrl(), " ", e.GetReadinessCheck().GetPath(), " ", h.GetMessage()))
		}
	}
	e := nextEvent(t, r.pageEvents())
	if !e.Complete {
		t.Error("the first event is not all there is")
	}
	for _, s := range e.Services {
		page = append(page, fmt.Sprint(s.Sandbox, "/", s.Name, " ", s.State, " ", s.Reason, " ", s.Code, " ", s.URL, " ", s.Check, " ", s.Message))
		if n := len(s.Transitions); n == 0 || s.Transitions[n-1].State != s.State || s.Transitions[n-1].Reason != s.Reason {
			t.Errorf("%s/%s is %s %s; its history ends with %v", s.Sandbox, s.Name, s.State, s.Reason, s.Transitions)
		}
	}
	slices.Sort(says)
	slices.Sort(page)
	if !slices.Equal(page, says) || len(page) != 6 {
		t.Errorf("the page says\n%s\nand the API\n%s", strings.Join(page, "\n"), strings.Join(says, "\n"))
	}
	if fmt.Sprint(e.Sandboxes) != "[{idle PROVISIONING} {new PROVISIONING} {web READY}]" {
		t.Errorf("the sandboxes are %v", e.Sandboxes)
	}
}

// T25: an open page does not keep the gateway from stopping.
func TestPageEndsWithTheGateway(t *testing.T) {
	r := start(t, testConfig(t))
	r.untilReady()
	events := r.pageEvents()
	nextEvent(t, events)
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v to stop", took)
	}
	if rest, err := io.ReadAll(events); !strings.Contains(string(rest), "the gateway is stopping") {
		t.Errorf("the page was told %q, %v", rest, err)
	}
}

// Where others can reach the listener, the page needs the token; a service's
// page can do nothing with it.
func TestPageNeedsTheToken(t *testing.T) {
	cfg := testConfig(t)
	cfg.HTTPListen = "0.0.0.0:0"
	r := start(t, cfg)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(r.file.HTTP, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(cfg.StateDir, r.file.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, path, body string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(method, "http://127.0.0.1:"+port+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := httpClient(nil).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	if got := do("GET", "/page/events", ""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %d", got.StatusCode)
	}
	body := `{"token":"` + strings.TrimSpace(string(token)) + `"}`
	if got := do("POST", "/page/session", body, "Content-Type: application/json", "Origin: http://default--web.sandbox.localhost:"+port); got.StatusCode != http.StatusForbidden {
		t.Errorf("from a service: %d", got.StatusCode)
	}
	signed := do("POST", "/page/session", body, "Content-Type: application/json")
	if len(signed.Cookies()) != 1 {
		t.Fatalf("signing in: %d, %v", signed.StatusCode, signed.Cookies())
	}
	if got := do("GET", "/page/session", "", "Cookie: "+signed.Cookies()[0].String()); got.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %d", got.StatusCode)
	}
	for what, value := range r.secrets() {
		if strings.Contains(r.logged.String(), value) {
			t.Errorf("%s was logged", what)
		}
	}
}
