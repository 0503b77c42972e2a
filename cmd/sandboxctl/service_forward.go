// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

func (a *app) serviceForward() *cobra.Command {
	cmd := command("forward SANDBOX [NAME] [flags]", "Put a service on a local port, for tools that are no browser",
		`  sandboxctl service forward web
  sandboxctl service forward web docs --local 54321`, "SANDBOX", "[NAME]")
	cmd.Long = `Forward listens on a port of 127.0.0.1 until it is interrupted, and carries every
connection to it through the gateway to the service, byte for byte. It begins
with saying where it listens.

Without --local it is the service's own port if that is free here, else any.`
	local := localPort(0)
	cmd.Flags().Var(&local, "local", "listen on this `PORT` of 127.0.0.1")
	complete(cmd, "local", nil)
	cmd.ValidArgsFunction = a.completeService
	cmd.RunE = a.lasting(func(ctx context.Context, c *sandbox.Client, args []string) error {
		name := optional(args, 1)
		port, err := a.targetPort(ctx, c, args[0], name)
		if err != nil {
			return err
		}
		l, err := listenLocal(ctx, uint32(local), port)
		if err != nil {
			return &failure{err: fmt.Errorf("--local: %w", err), next: "Name another port, or leave --local out."}
		}
		defer l.Close() //nolint:errcheck // it ends the command
		if err := a.sayForward(l.Addr().String(), args[0], name, port); err != nil {
			return err
		}
		target := &sandboxv1.ForwardTarget{Sandbox: args[0], Name: name, WorkspaceScope: a.scope()}
		return a.forward(ctx, c, l, target)
	})
	return cmd
}

// targetPort returns the port of a service, which must exist.
func (a *app) targetPort(ctx context.Context, c *sandbox.Client, sb, name string) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(a.flags.timeout))
	defer cancel()
	r, err := c.GetService(ctx, &openshellv1.GetServiceRequest{Sandbox: sb, Name: name, WorkspaceScope: a.scope()})
	return r.GetEndpoint().GetTargetPort(), err
}

// listenLocal listens on the given port or, without one, on the preferred port
// if that is possible.
func listenLocal(ctx context.Context, given, preferred uint32) (net.Listener, error) {
	var config net.ListenConfig
	listen := func(port uint32) (net.Listener, error) {
		return config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.FormatUint(uint64(port), 10)))
	}
	if given != 0 {
		return listen(given)
	}
	l, err := listen(preferred)
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
		return listen(0)
	}
	return l, err
}

func (a *app) sayForward(local, sb, name string, port uint32) error {
	return a.showAs(
		func(p *page) {
			p.line(fmt.Sprintf("Forwarding %s to %s, port %d. Interrupt to end.", local, lowerFirst(serviceWords(sb, name)), port))
		},
		func() ([]byte, error) {
			return json.Marshal(map[string]any{"localAddress": local, "sandbox": sb, "name": name, "targetPort": port})
		},
	)
}

// forward serves the listener until ctx ends.
func (a *app) forward(ctx context.Context, c *sandbox.Client, l net.Listener, target *sandboxv1.ForwardTarget) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	var speaking sync.Mutex
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	fail := func(text string) {
		speaking.Lock()
		defer speaking.Unlock()
		a.note("sandboxctl: a connection failed: %s", text)
	}
	for short := false; ; {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil // interrupted, which is how it ends
		case exhausted(err): // those that are open go on, and give back what they have
			if !short {
				fail(err.Error() + "; it waits until others have ended")
			}
			short = true
			pause(ctx, acceptPause)
			continue
		case err != nil:
			return fmt.Errorf("accept: %w", err)
		}
		short = false
		wg.Go(func() {
			err := tunnel(ctx, c, conn, target)
			if err != nil && ctx.Err() == nil {
				fail(judge(err, a.where, time.Duration(a.flags.timeout)).text)
			}
			if err != nil {
				reset(conn.(*net.TCPConn))
			}
		})
	}
}

// acceptPause is how long a listener waits for what there was too little of.
const acceptPause = 100 * time.Millisecond

// exhausted reports whether something has run out that comes back by itself:
// descriptors, memory.
func exhausted(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// localPort is the value of --local.
type localPort uint16

func (p *localPort) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.Itoa(int(*p))
}
func (p *localPort) Type() string { return "PORT" }
func (p *localPort) Set(s string) error {
	port, err := parsePort(s)
	if err != nil {
		return usagef("--local: %w", err)
	}
	*p = localPort(port)
	return nil
}
