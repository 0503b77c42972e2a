// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"context"
	"sync"
	"time"
)

// every is the pace of one load; three of them make 100 requests a second.
const every = 30 * time.Millisecond

// load sends requests at a steady pace, however long each takes.
type load struct {
	name string
	done chan struct{}

	mu     sync.Mutex
	sent   int
	failed []error
}

// load starts a load that ends with ctx; requests under way then are finished.
func (f *fleet) load(ctx context.Context, name string, request func(context.Context) error) *load {
	l := &load{name: name, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		var wg sync.WaitGroup
		defer wg.Wait()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			wg.Go(func() {
				// The test's own time, not that of the load: a request that was
				// begun must succeed.
				err := request(context.WithoutCancel(ctx))
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.sent++; err != nil {
					l.failed = append(l.failed, err)
				}
			})
		}
	}()
	return l
}

// wait returns how many requests were sent, and the errors of those that
// failed, once the load has ended.
func (l *load) wait() (sent int, failed []error) {
	<-l.done
	return l.sent, l.failed
}
