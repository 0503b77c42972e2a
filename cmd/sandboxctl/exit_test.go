// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

func TestExitCodes(t *testing.T) {
	f := newFixture(t)
	for code, want := range map[codes.Code]struct {
		exit int
		text string
		next string
	}{
		codes.Canceled:           {exitFailed, "get sandbox: interrupted", ""},
		codes.Unknown:            {exitFailed, "get sandbox: the gateway's words", "log tells more"},
		codes.InvalidArgument:    {exitUsage, "sandboxctl: the gateway's words", ""},
		codes.DeadlineExceeded:   {exitTimeout, "get sandbox: no answer from the gateway at " + f.address + " within 30s", "--timeout"},
		codes.NotFound:           {exitNotFound, "sandboxctl: the gateway's words", "sandboxctl sandbox list"},
		codes.AlreadyExists:      {exitFailed, "sandboxctl: the gateway's words", "another name"},
		codes.PermissionDenied:   {exitFailed, "admin.token does not allow this: the gateway's words", ""},
		codes.ResourceExhausted:  {exitFailed, "sandboxctl: the gateway's words", ""},
		codes.FailedPrecondition: {exitFailed, "sandboxctl: the gateway's words", ""},
		codes.Aborted:            {exitFailed, "sandboxctl: the gateway's words", "run the command again"},
		codes.OutOfRange:         {exitFailed, "get sandbox: the gateway's words", ""},
		codes.Unimplemented:      {exitFailed, "cannot do this (get sandbox): the gateway's words", "sandboxctl version"},
		codes.Internal:           {exitFailed, "get sandbox: the gateway's words", "log tells more"},
		codes.Unavailable:        {exitFailed, "no connection to the gateway at " + f.address + " (named by " + f.dir + "/client.json): the gateway's words", "sandbox-gateway serve"},
		codes.DataLoss:           {exitFailed, "get sandbox: the gateway's words", ""},
		codes.Unauthenticated:    {exitFailed, "refused the token from " + f.dir + "/admin.token: the gateway's words", "--token-file"},
		codes.Code(77):           {exitFailed, "get sandbox: the gateway's words", ""},
	} {
		t.Run(code.String(), func(t *testing.T) {
			f.Fail("GetSandbox", status.Error(code, "the gateway's words"))
			got := f.run(t, "sandbox", "get", "web", "-o", "json")
			if got.code != want.exit || !strings.Contains(got.err, want.text) || !strings.Contains(got.err, want.next) {
				t.Errorf("exit %d:\n%swant exit %d, %q and %q", got.code, got.err, want.exit, want.text, want.next)
			}
			if got.out != "" {
				t.Errorf("stdout: %s", got.out)
			}
		})
	}
	f.Fail("GetSandbox", status.Error(codes.NotFound, ""))
	if got := f.run(t, "sandbox", "get", "web"); !strings.Contains(got.err, "get sandbox failed with code NotFound") {
		t.Errorf("an error without words: %s", got.err)
	}
}

// Each command hands its error on: none ends with 0.
func TestEveryCommandFails(t *testing.T) {
	f := newFixture(t)
	for _, method := range []string{
		"Health", "CreateSandbox", "GetSandbox", "ListSandboxes", "StopSandbox", "StartSandbox", "DeleteSandbox",
		"ExposeService", "GetService", "ListServices", "DeleteService", "WatchServices", "WaitService", "ListServiceTransitions",
	} {
		f.Fail(method, status.Error(codes.NotFound, "nothing there"))
	}
	for _, line := range []string{
		"gateway status", "sandbox create web", "sandbox get web", "sandbox list", "sandbox stop web", "sandbox start web", "sandbox delete web",
		"service expose web 80", "service get web", "service list", "service delete web",
		"service watch", "service watch web", "service watch web docs", "service wait web", "service history web",
	} {
		if got := f.run(t, strings.Fields(line)...); got.code != exitNotFound || got.out != "" {
			t.Errorf("%s: exit %d, stdout %q", line, got.code, got.out)
		}
	}
}

func TestTimeout(t *testing.T) {
	f := newFixture(t)
	f.Hang("ListServices")
	begin := time.Now()
	got := f.run(t, "service", "list", "--timeout", "20ms")
	if took := time.Since(begin); took > 20*time.Second { // far above any machine's slowness, far below the test's own limit
		t.Errorf("it took %v", took)
	}
	if got.code != exitTimeout || !strings.Contains(got.err, "within 20ms") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// An interrupt ends the command at once.
func TestInterrupt(t *testing.T) {
	f := newFixture(t)
	arrived := f.Hang("ListServices")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-arrived
		cancel()
	}()
	var stderr strings.Builder
	if code := run(ctx, []string{"service", "list"}, []string{"SANDBOX_GATEWAY_STATE_DIR=" + f.dir}, nil, &stderr, &stderr); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if !strings.Contains(stderr.String(), "interrupted") {
		t.Error(stderr.String())
	}
}

func TestGatewayStatusExitCode(t *testing.T) {
	f := newFixture(t)
	for s, want := range map[openshellv1.ServiceStatus]struct {
		exit int
		word string
	}{0: {exitFailed, "Unknown"}, 1: {exitDone, "Healthy"}, 2: {exitDone, "Degraded"}, 3: {exitFailed, "Unhealthy"}, 9: {exitFailed, "Unknown"}} {
		f.SetOwnHealth(&openshellv1.HealthResponse{Status: s})
		got := f.run(t, "gateway", "status")
		if got.code != want.exit || !strings.Contains(got.out, want.word) {
			t.Errorf("status %d: exit %d:\n%s", s, got.code, got.out)
		}
	}
}

var errBroken = errors.New("pipe is broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// A result that could not be written is a failure.
func TestBrokenOutput(t *testing.T) {
	for _, line := range []string{"version", "version -o json", "completion bash", "completion zsh", "completion fish", "--help", "help service wait", "service list -h", "man"} {
		var stderr strings.Builder
		code := run(t.Context(), strings.Fields(line), nil, nil, brokenWriter{}, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), errBroken.Error()) {
			t.Errorf("%s: exit %d: %s", line, code, stderr.String())
		}
	}
}
