// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// wait is a WaitService. If standard error is a terminal it shows there what is
// being waited for, on one line that is gone afterwards.
func (a *app) wait(ctx context.Context, c *sandbox.Client, req *sandboxv1.WaitServiceRequest) (*sandboxv1.WaitServiceResponse, error) {
	if !a.redraws(a.stderr) {
		return c.WaitService(ctx, req)
	}
	began := a.now()
	w := c.WatchServices(ctx, &sandboxv1.WatchServicesRequest{
		WorkspaceScope: req.GetWorkspaceScope(), Sandbox: req.GetSandbox(), Services: []string{req.GetName()},
	})
	defer w.Close()
	say := func() string {
		seen := "no answer yet"
		for _, s := range w.Services() {
			seen, _ = healthWords(s.Health())
		}
		return fmt.Sprintf("Waiting for %s: %s, %s", lowerFirst(serviceWords(req.GetSandbox(), req.GetName())), seen, elapsedWords(a.now().Sub(began).Truncate(time.Second)))
	}
	var resp *sandboxv1.WaitServiceResponse
	err := a.progress(ctx, w, say, func() (err error) {
		resp, err = c.WaitService(ctx, req)
		return err
	})
	return resp, err
}

// progress runs work and meanwhile shows a line, anew each second and, if there
// is a watch, whenever that has news.
func (a *app) progress(ctx context.Context, w *sandbox.ServiceWatch, say func() string, work func() error) error {
	if !a.redraws(a.stderr) {
		return work()
	}
	done := make(chan error, 1)
	go func() { done <- work() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var updates <-chan told
	if w != nil {
		updates = pump(ctx, w)
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	defer fmt.Fprint(a.stderr, "\r\x1b[K")
	for {
		width, _ := a.terminal(a.stderr)
		line := clean(say())
		if width > 0 {
			line = clipped(line, width-1)
		}
		fmt.Fprint(a.stderr, "\r"+line+"\x1b[K")
		select {
		case err := <-done:
			return err
		case t := <-updates:
			if t.err != nil {
				updates = nil // the work says what there is to say
			}
		case <-second.C:
		}
	}
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return string(s[0]|0x20) + s[1:]
}
