// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits of a gateway.
const (
	// MaxWatches is how many WatchServices are served at once.
	MaxWatches = 1000
	// MaxWaits is how many WaitService are served at once.
	MaxWaits = 10000
	// MaxServices is how many services one watch may select.
	MaxServices = 10000
)

// filter selects services.
type filter struct {
	workspace string // empty: all
	sandbox   string // empty: all
	labels    map[string]string
	services  []string // names; nil: all
}

// sandboxes reports whether services of a sandbox can be selected.
func (f *filter) sandboxes(r *record) bool {
	if r == nil || f.workspace != "" && f.workspace != r.workspace || f.sandbox != "" && f.sandbox != r.name {
		return false
	}
	for k, v := range f.labels {
		if got, ok := r.labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// wants is the filter of names for a book.
func (f *filter) wants() func(string) bool {
	if f.services == nil {
		return nil
	}
	return func(name string) bool { return slices.Contains(f.services, name) }
}

// caller is a watch or a wait under way.
type caller struct {
	filter filter
	marks  *marks // sandboxes to look at again
}

// callers are those under way, the ones that follow a single sandbox by its
// name.
type callers struct {
	watches, waits *quota

	mu   sync.Mutex
	wide map[*caller]struct{}
	by   map[sandboxName]map[*caller]struct{}
}

func newCallers() callers {
	return callers{
		watches: &quota{what: "watches", limit: MaxWatches}, waits: &quota{what: "waits", limit: MaxWaits},
		wide: make(map[*caller]struct{}), by: make(map[sandboxName]map[*caller]struct{}),
	}
}

// add registers a caller: from now on it is marked.
func (c *callers) add(f filter) *caller {
	n := &caller{filter: f, marks: newMarks()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.sandbox == "" || f.workspace == "" {
		c.wide[n] = struct{}{}
		return n
	}
	k := sandboxName{f.workspace, f.sandbox}
	if c.by[k] == nil {
		c.by[k] = make(map[*caller]struct{})
	}
	c.by[k][n] = struct{}{}
	return n
}

func (c *callers) remove(n *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wide, n)
	k := sandboxName{n.filter.workspace, n.filter.sandbox}
	delete(c.by[k], n)
	if len(c.by[k]) == 0 {
		delete(c.by, k)
	}
}

// mark tells the callers that follow a sandbox, of which the records before
// and after are given, to look at it again.
func (c *callers) mark(id string, records ...*record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tell := func(n *caller) {
		if slices.ContainsFunc(records, n.filter.sandboxes) {
			n.marks.put(id)
		}
	}
	for n := range c.wide {
		tell(n)
	}
	named := make(map[sandboxName]struct{}, len(records))
	for _, r := range records {
		if r != nil {
			named[r.key()] = struct{}{}
		}
	}
	for k := range named {
		for n := range maps.Keys(c.by[k]) {
			tell(n)
		}
	}
}

// quota bounds how many calls of a kind are under way.
type quota struct {
	what  string
	limit int

	mu sync.Mutex
	n  int
}

// enter counts a call; leave has to be called at its end.
func (q *quota) enter() (leave func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n >= q.limit {
		return nil, status.Errorf(codes.ResourceExhausted, "this gateway serves at most %d %s at once, and has as many: end one, or try again later", q.limit, q.what)
	}
	q.n++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.n--
	}, nil
}

func (q *quota) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}
