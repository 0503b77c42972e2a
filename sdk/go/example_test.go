// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// Start something, wait until it is ready, go on.
func ExampleClient_WaitService() {
	ctx := context.Background()
	options, err := sandbox.Discover()
	if err != nil {
		fmt.Println(err) // which source is at fault
		return
	}
	client, err := sandbox.Dial(ctx, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	_, err = client.CreateSandbox(ctx, &openshellv1.CreateSandboxRequest{
		Name:             "web",
		Spec:             &openshellv1.SandboxSpec{Command: []string{"python3", "-m", "http.server", "8080"}},
		Annotations:      map[string]string{"sandbox-agent.dev/driver": "local"},
		ServiceExposures: []*openshellv1.SandboxServiceExposure{{TargetPort: 8080}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ready, err := client.WaitService(ctx, &sandboxv1.WaitServiceRequest{Sandbox: "web", Timeout: durationpb.New(time.Minute)})
	if err != nil {
		fmt.Println(err) // names target, elapsed time, last state and last reason
		return
	}
	fmt.Println(ready.GetService().GetUrl())
}

// Follow every service of a workspace until the program ends.
func ExampleClient_WatchServices() {
	client, err := sandbox.Dial(context.Background(), sandbox.Options{Address: "http://127.0.0.1:17670"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	watch := client.WatchServices(context.Background(), &sandboxv1.WatchServicesRequest{WorkspaceScope: sandbox.Workspace("blue")})
	defer watch.Close()
	for {
		update, err := watch.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		if update.Err != nil {
			fmt.Println("the gateway cannot be reached:", update.Err)
		}
		for _, s := range update.Changed {
			h := s.Health()
			fmt.Println(s.Service.GetUrl(), h.State, h.Reason)
		}
		for _, s := range update.Removed {
			fmt.Println(s.Service.GetUrl(), "is gone")
		}
	}
}

// A program with a flag of its own, and something to say when there is no
// gateway.
func ExampleSearch() {
	gateway := flag.String("gateway", "", "URL of the gateway")
	flag.Parse()
	found, err := sandbox.Search{
		Address: sandbox.Named{Value: *gateway, By: "-gateway"},
		Env:     os.Getenv,
		Root:    os.Geteuid() == 0,
	}.Find()
	if wrong, ok := errors.AsType[*sandbox.DiscoveryError](err); ok && wrong.Fault == sandbox.FaultNoGateway {
		fmt.Println("start a gateway, or name one with -gateway")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := found.Dial(context.Background())
	if err != nil {
		fmt.Println(err) // "-gateway: …", if that is what cannot be used
		return
	}
	defer client.Close()
	fmt.Println("the gateway that", found.AddressFrom, "names")
}
