// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
	"github.com/sandbox-agent/sandbox-agent/gateway/health"
)

// Slots is the health cache.
type Slots interface {
	Slot(sandboxID string) health.Slot
}

// Config is what a Server works with.
type Config struct {
	Records Records
	Slots   Slots
	// URLs renders the URL of a service.
	URLs api.URLs
	// Started is when the gateway began to accept sessions.
	Started time.Time
	Logger  *slog.Logger
}

// Server implements sandbox.v1.
type Server struct {
	sandboxv1.UnimplementedServiceHealthWatchServer
	cfg Config

	touched *marks // sandboxes whose slot may have changed
	stored  *marks // sandboxes whose record may have changed
	listed  bool   // all records were marked once; the loader's

	mu      sync.Mutex
	loaded  uint64        // so many puts into stored are dealt with
	settled chan struct{} // closed when loaded grows, then replaced

	// state is what is seen of all sandboxes. An instant that is read under
	// the lock is not before the sights that are read with it.
	state   sync.RWMutex
	sights  map[string]sight // by sandbox id
	names   map[sandboxName]string
	book    *book
	history *history
	loading bool // the records are being read for the first time

	callers callers
	closed  chan struct{}
	once    sync.Once
}

type sandboxName struct{ workspace, name string }

// New returns a Server; Run makes it work.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, touched: newMarks(), stored: newMarks(), settled: make(chan struct{}), closed: make(chan struct{}),
		sights: make(map[string]sight), names: make(map[sandboxName]string),
		book: newBook(cfg.Started, nil), history: newHistory(cfg.Started), loading: true,
		callers: newCallers(),
	}
	s.stored.put() // all of them: nothing is settled before they were listed
	return s
}

// Touch takes note that what is known of a sandbox's health may have changed.
// It does not block.
func (s *Server) Touch(sandboxID string) { s.touched.put(sandboxID) }

// Stored takes note that the record of a sandbox, or of one of its services,
// may have changed. It does not block.
func (s *Server) Stored(sandboxID string) { s.stored.put(sandboxID) }

var errClosing = status.Error(codes.Unavailable, "the gateway is stopping: connect again and call again")

// Close ends all calls, now and in future, with Unavailable. It does not wait.
func (s *Server) Close() { s.once.Do(func() { close(s.closed) }) }

// slack is how late an answer may be noticed that changes by age alone, so that
// those of many sandboxes are noticed together.
const slack = 100 * time.Millisecond

// Run keeps what is seen of all sandboxes up to date until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.load(ctx) })
	defer wg.Wait()
	timer := newAlarm()
	defer timer.stop()
	for {
		timer.set(s.nextExpiry())
		select {
		case <-s.touched.wake:
			ids, _ := s.touched.take()
			s.lookAgain(ids)
		case <-timer.c():
			s.lookAgain(s.dueNow())
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Server) nextExpiry() time.Time {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.book.next()
}

func (s *Server) dueNow() []string {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.book.due(time.Now())
}

func (s *Server) lookAgain(ids []string) {
	for _, id := range ids {
		s.look(id, func(old sight) sight { return sight{record: old.record, slot: s.cfg.Slots.Slot(id)} })
	}
}

// look replaces what is seen of a sandbox, and tells whoever follows it if an
// answer about it has changed.
func (s *Server) look(id string, see func(old sight) sight) {
	if records, news := s.lookLocked(id, see); news {
		s.callers.mark(id, records[:]...)
	}
}

func (s *Server) lookLocked(id string, see func(old sight) sight) (records [2]*record, news bool) {
	s.state.Lock()
	defer s.state.Unlock()
	old := s.sights[id]
	next := see(old)
	records = [2]*record{old.record, next.record}
	now := time.Now()
	// First what time alone has done: watches may have noticed it already.
	expires := s.book.expires(id)
	var aged []change
	if !expires.IsZero() && !expires.After(now) {
		aged = s.book.look(id, old, now)
		s.history.take(aged, old.lost(), s.loading, now)
		expires = s.book.expires(id)
	}
	changed := s.book.look(id, next, now)
	s.history.take(changed, next.lost(), s.loading, now)
	if old.record != nil && (next.record == nil || old.record.key() != next.record.key()) && s.names[old.record.key()] == id {
		delete(s.names, old.record.key())
	}
	if next.record == nil {
		delete(s.sights, id)
	} else {
		s.sights[id], s.names[next.record.key()] = next, id
	}
	sooner := earlier(expires, s.book.expires(id), now) != expires
	return records, len(aged)+len(changed) > 0 || sooner || !maps.Equal(old.record.labelsOf(), next.record.labelsOf())
}

func (r *record) labelsOf() map[string]string {
	if r == nil {
		return nil
	}
	return r.labels
}

func (r *record) key() sandboxName { return sandboxName{r.workspace, r.name} }

// see returns what is seen of a sandbox, and an instant at which it is.
func (s *Server) see(id string) (sight, time.Time) {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.sights[id], time.Now()
}

// Watches counts the watches under way.
func (s *Server) Watches() int { return s.callers.watches.count() }

// Waits counts the waits under way.
func (s *Server) Waits() int { return s.callers.waits.count() }
