// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package latest

import (
	"sync"
	"testing"
)

func TestNewestWins(t *testing.T) {
	c := New[int]()
	if _, ok := c.Take(); ok {
		t.Fatal("an empty cell gave a value")
	}
	for i := range 10 {
		c.Put(i)
	}
	<-c.Ready()
	if v, ok := c.Take(); !ok || v != 9 {
		t.Fatalf("Take() = %d, %v, want 9, true", v, ok)
	}
	select {
	case <-c.Ready():
		t.Fatal("signalled twice for one batch")
	default:
	}
	if _, ok := c.Take(); ok {
		t.Fatal("took the same value twice")
	}
}

func TestConcurrentPutsEndWithTheLast(t *testing.T) {
	c := New[int]()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				c.Put(1)
			}
		})
	}
	wg.Wait()
	c.Put(2)
	if v, _ := c.Take(); v != 2 {
		t.Fatalf("Take() = %d, want 2", v)
	}
}
