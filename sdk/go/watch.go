// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// ServiceUpdate is what is new in a watch.
type ServiceUpdate struct {
	// Changed are services that are new, or of which the state, the reason,
	// the endpoint or the sandbox's phase is another than in the updates
	// before; Removed those that are gone, as they were last. The first update
	// with Connected has all services.
	Changed, Removed []WatchedService
	// Connected is whether the gateway is being heard. While it is not, what it
	// said counts for WatchTimeout; then an update makes every service unknown.
	Connected bool
	// Err is why it is not connected.
	Err error
}

// ServiceWatch follows the health of services. It belongs to whoever began it,
// who ends it with Close or with the context.
//
// The watch reads eagerly and keeps the newest state alone: whoever is slow to
// call Next delays nothing, and misses what has come and gone in between. It
// connects again by itself, for ever; then Next tells the difference to what
// it told before, as if there had been no gap.
type ServiceWatch struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *Client
	req    *sandboxv1.WatchServicesRequest
	done   chan struct{} // closed when run has ended
	wake   chan struct{} // size 1: Next has something to look at

	mu    sync.Mutex
	state watchState
	end   error // set before done is closed

	// What Next told last; Next's own.
	told      []WatchedService
	connected bool
	complete  bool
	failed    bool // that there is no connection was told
}

// WatchServices begins to follow the services that req selects; nil selects
// those of the default workspace. It does not wait for the gateway. ctx ends
// the watch.
func (c *Client) WatchServices(ctx context.Context, req *sandboxv1.WatchServicesRequest) *ServiceWatch {
	own := &sandboxv1.WatchServicesRequest{}
	proto.Merge(own, req)
	ctx, cancel := context.WithCancel(ctx)
	w := &ServiceWatch{ctx: ctx, cancel: cancel, client: c, req: own, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go w.run()
	return w
}

// Close ends the watch and returns once nothing of it is left. Next returns
// ErrCanceled then.
func (w *ServiceWatch) Close() {
	w.cancel()
	<-w.done
}

// Services returns all services as they are known now, in the order of
// workspace, sandbox and name; nothing before the first full state has come.
// Any goroutine may call it.
func (w *ServiceWatch) Services() []WatchedService {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.at(time.Now())
}

// Next waits until something is new and returns it. One goroutine calls it.
//
// A gateway that cannot be reached is an update, not an error. Errors end the
// watch: those of the context, ErrCanceled after Close, and what repeating
// would not heal: ErrInvalidArgument, ErrUnauthenticated, ErrPermissionDenied,
// ErrResourceExhausted (a limit of the gateway), ErrUnimplemented.
func (w *ServiceWatch) Next() (ServiceUpdate, error) {
	stale := time.NewTimer(WatchTimeout)
	defer stale.Stop()
	for {
		u, expires, news := w.look(time.Now())
		if news {
			return u, nil
		}
		if expires.IsZero() {
			stale.Stop()
		} else {
			stale.Reset(time.Until(expires))
		}
		select {
		case <-w.wake:
		case <-stale.C:
		case <-w.done:
			return ServiceUpdate{}, w.end
		}
	}
}

// look compares what is known at now with what was told. Without news it
// returns when time alone will make some; zero if it will not.
func (w *ServiceWatch) look(now time.Time) (u ServiceUpdate, expires time.Time, news bool) {
	w.mu.Lock()
	s := &w.state
	connected, complete, err := s.connected, s.complete, s.err
	list := s.at(now)
	if expires = s.expires(); !now.Before(expires) {
		expires = time.Time{}
	}
	w.mu.Unlock()
	u = ServiceUpdate{Connected: connected, Err: err}
	u.Changed, u.Removed = difference(w.told, list)
	news = len(u.Changed)+len(u.Removed) > 0 || connected != w.connected || complete != w.complete || err != nil && !w.failed
	w.told, w.connected, w.complete, w.failed = list, connected, complete, err != nil
	return u, expires, news
}

// run keeps a stream open until the context ends, or a failure that repeating
// does not heal.
func (w *ServiceWatch) run() {
	defer close(w.done)
	defer w.cancel()
	for failures := 0; ; failures++ {
		heard, err := w.follow(failures > 0)
		if ended := over(w.ctx); ended != nil {
			w.end = wrap("watch services", status.FromContextError(ended).Err())
			return
		}
		if err = wrap("watch services", err); !transient(err) || w.client.conn.GetState() == connectivity.Shutdown {
			w.end = err
			return
		}
		if heard {
			failures = 0
		}
		w.update(func(s *watchState) { s.lost(err) })
		pause := time.NewTimer(redialAfter(failures))
		select {
		case <-pause.C:
		case <-w.ctx.Done():
			pause.Stop()
		}
	}
}

// over is ctx.Err, and so also at the very instant of the deadline, when the
// call may end before the context does.
func over(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// follow opens one stream and takes its messages until it ends, or is silent
// for WatchTimeout. heard tells whether any came.
func (w *ServiceWatch) follow(again bool) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	// gRPC goes on dialling a gateway that is not reached; one that was and
	// hangs is left.
	stream, err := w.client.watch.WatchServices(ctx, w.req, grpc.WaitForReady(again))
	if err != nil {
		return false, err
	}
	w.update((*watchState).begin)
	silence := time.AfterFunc(WatchTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	for {
		m, err := stream.Recv()
		if err != nil {
			return heard, because(ctx, err)
		}
		silence.Reset(WatchTimeout)
		heard = true
		w.update(func(s *watchState) { err = s.take(m, time.Now()) })
		if err != nil {
			return heard, status.Error(codes.Unavailable, err.Error())
		}
	}
}

var errSilent = errors.New("the gateway has said nothing for 15 seconds")

// because is err, or what has ended the context.
func because(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return status.Error(codes.Unavailable, errSilent.Error())
	}
	return err
}

func (w *ServiceWatch) update(f func(*watchState)) {
	w.mu.Lock()
	f(&w.state)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// transient reports whether a call that failed so may succeed when it is
// repeated: the gateway was not reached, was stopping, or failed.
func transient(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.Aborted, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// redialAfter is the pause before repetition n: firstRedial growing to
// lastRedial, of which the upper half is random.
func redialAfter(n int) time.Duration {
	d := firstRedial
	for range min(n, 10) {
		d = min(d*2, lastRedial)
	}
	return d/2 + rand.N(d/2)
}
