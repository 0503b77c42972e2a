// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// The gateway of this machine, or the one that the environment names.
	options, err := sandbox.Discover()
	if err != nil {
		return err
	}
	client, err := sandbox.Dial(ctx, options)
	if err != nil {
		return err
	}
	defer client.Close()

	// Start something, wait until it is ready, go on.
	if _, err := client.CreateSandbox(ctx, &openshellv1.CreateSandboxRequest{
		Name:             "hello-go",
		Annotations:      map[string]string{"sandbox-agent.dev/driver": "local"},
		Spec:             &openshellv1.SandboxSpec{Command: []string{"python3", "-m", "http.server", "8080", "--bind", "127.0.0.1"}},
		ServiceExposures: []*openshellv1.SandboxServiceExposure{{TargetPort: 8080, ReadinessCheck: &openshellv1.HttpReadinessCheck{Path: "/"}}},
	}); err != nil {
		return err
	}
	defer client.DeleteSandbox(ctx, &openshellv1.DeleteSandboxRequest{Name: "hello-go"})
	ready, err := client.WaitService(ctx, &sandboxv1.WaitServiceRequest{Sandbox: "hello-go", Timeout: durationpb.New(time.Minute)})
	if err != nil {
		return err // names target, elapsed time, last state and last reason
	}
	url := ready.GetService().GetUrl()
	fmt.Println(url, "is", sandbox.HealthOf(ready.GetService()).State)

	// Browsers take every name below localhost for this machine, a resolver may
	// not: dial localhost, and leave the name in the request's Host.
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	call.URL.Host = "localhost:" + call.URL.Port()
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(call)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Println("it answers", answer.Status)
	return nil
}
