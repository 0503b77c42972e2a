// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// Of several updates of one version exactly one wins, on PostgreSQL also when
// they come through several gateways.
func TestCompareAndSwapHasOneWinner(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		gateways := []*handle{e.open(t)}
		if e.postgres {
			gateways = append(gateways, e.open(t), e.open(t))
		}
		sb := gateways[0].addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
		svc := gateways[0].addService(t, store.Service{SandboxID: sb.ID, Name: "web", Port: 1})
		const writers = 12
		for round := range 3 {
			errs := make(chan error, 2*writers)
			for i := range writers {
				h := gateways[i%len(gateways)]
				go func() {
					errs <- h.try(func(tx store.Tx) error {
						next := svc
						next.Port = uint16(1000*(round+1) + i) // always a change
						_, err := tx.UpdateService(next)
						return tag("service", err)
					})
				}()
				go func() {
					errs <- h.try(func(tx store.Tx) error {
						next := sb
						next.Instance = fmt.Sprint(i)
						_, err := tx.UpdateSandbox(next)
						return tag("sandbox", err)
					})
				}()
			}
			won := 0
			for range 2 * writers {
				switch err := <-errs; {
				case err == nil:
					won++
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
				}
			}
			if won != 2 {
				t.Errorf("%d updates won, want one of the service and one of the sandbox", won)
			}
			var err error
			svc2, err := gateways[0].Service(t.Context(), "w", "s", "web")
			if err != nil || svc2.ResourceVersion <= svc.ResourceVersion || svc2.Revision != svc2.ResourceVersion {
				t.Fatalf("service after the race: %+v, %v", svc2, err)
			}
			svc = svc2
			if sb, err = gateways[0].Sandbox(t.Context(), "w", "s"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func tag(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Versions are never used twice, also by several writers at once, and what one
// writer reads in its transaction nobody else changes.
func TestConcurrentVersionsAreUnique(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		gateways := []*handle{e.open(t)}
		if e.postgres {
			gateways = append(gateways, e.open(t))
		}
		counter := gateways[0].addSandbox(t, store.Sandbox{Workspace: "w", Name: "counter"})
		const writers, each = 6, 10
		versions := make(chan uint64, writers*each)
		errs := make(chan error, writers)
		for i := range writers {
			go func() {
				var err error
				for j := 0; j < each && err == nil; j++ {
					err = gateways[i%len(gateways)].try(func(tx store.Tx) error {
						s, err := tx.SandboxByID(counter.ID)
						if err != nil {
							return err
						}
						s.Generation++ // read, change, write: lost if anybody else gets between
						s, err = tx.UpdateSandbox(s)
						versions <- s.ResourceVersion
						return err
					})
				}
				errs <- err
			}()
		}
		for range writers {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		seen := map[uint64]bool{}
		for range writers * each {
			v := <-versions
			if seen[v] {
				t.Errorf("version %d was used twice", v)
			}
			seen[v] = true
		}
		s, err := gateways[0].SandboxByID(t.Context(), counter.ID)
		if err != nil || s.Generation != 1+writers*each {
			t.Errorf("generation %d, %v: want %d, no update lost", s.Generation, err, 1+writers*each)
		}
	})
}

// A write waits in line behind another of this process, and gives up in time.
func TestWriteQueue(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		inside, release := make(chan struct{}), make(chan struct{})
		first := make(chan error)
		go func() {
			first <- h.try(func(tx store.Tx) error {
				close(inside)
				<-release
				_, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: "first"})
				return err
			})
		}()
		<-inside
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := h.Mutate(ctx, store.Request{}, func(store.Tx) ([]byte, error) { return nil, nil })
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrBusy) {
			t.Errorf("a caller that went away: error %v, want context.Canceled and not ErrBusy", err)
		}
		_, _, err = h.Mutate(within(t, shortly), store.Request{}, func(store.Tx) ([]byte, error) { return nil, nil })
		if !errors.Is(err, store.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline in the queue: error %v, want ErrBusy and context.DeadlineExceeded", err)
		}
		second := make(chan error)
		go func() {
			second <- h.try(func(tx store.Tx) error {
				_, err := tx.Sandbox("w", "first") // sees what the first has written
				return err
			})
		}()
		close(release)
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
	})
}

// A context that ends in the middle rolls back and leaves the store usable.
func TestContextEndsInside(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			_, _, err := h.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
				if _, err := tx.InsertSandbox(store.Sandbox{Workspace: "w", Name: name(i)}); err != nil {
					return nil, err
				}
				cancel()
				_, _ = tx.Sandbox("w", name(i)) // fails; overlooked on purpose
				return nil, nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
			if _, err := h.Sandbox(t.Context(), "w", name(i)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("after the rollback: %v, want ErrNotFound", err)
			}
			if err := h.Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
		}
	})
}

// Calls that are given up at any moment cost connections, never the store: in
// particular their end is not taken for a replaced file.
func TestGivenUpCalls(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		h := e.open(t)
		h.addSandbox(t, store.Sandbox{Workspace: "w", Name: "s"})
		const workers, each = 4, 40
		done := make(chan struct{})
		for w := range workers {
			go func() {
				defer func() { done <- struct{}{} }()
				for i := range each {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*w)*20*time.Microsecond)
					_, _ = h.Sandboxes(ctx, store.SandboxQuery{})
					_, _, _ = h.Mutate(ctx, store.Request{}, func(tx store.Tx) ([]byte, error) {
						_, err := tx.Sandbox("w", "s")
						return nil, err
					})
					cancel()
				}
			}()
		}
		for range workers {
			<-done
		}
		h.DropIdle()
		if err := h.Check(t.Context()); err != nil {
			t.Errorf("Check: %v", err)
		}
		if _, err := h.Sandbox(t.Context(), "w", "s"); err != nil {
			t.Errorf("read: %v", err)
		}
	})
}
