// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
	"golang.org/x/sys/unix"
)

// local boots sandboxes as Linux namespaces on this machine.
type local struct {
	cfg   Config
	files files
	turns locks // order: a turn, then mu

	mu      sync.Mutex
	procs   map[string]*process // watched; an entry goes when its end has been told
	closed  bool
	closing chan struct{} // closed with closed
	watches sync.WaitGroup
}

// NewLocal returns the driver "local". It starts nothing before Start or Adopt.
func NewLocal(cfg Config) Driver {
	if cfg.StopGrace <= 0 {
		cfg.StopGrace = DefaultStopGrace
	}
	if cfg.OnExit == nil {
		cfg.OnExit = func(Exit) {}
	}
	return &local{
		cfg:     cfg,
		files:   files{dir: cfg.Dir},
		procs:   make(map[string]*process),
		closing: make(chan struct{}),
	}
}

func (d *local) Name() string { return "local" }

// TokenFile is alone in its directory: that is what the sandbox sees, so that it
// sees a token that replaced the file, and no other file.
func (d *local) TokenFile(id string) string {
	return filepath.Join(d.files.sandbox(id), "credentials", "token")
}

func (d *local) Start(ctx context.Context, spec Spec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	unlock, err := d.turns.lock(ctx, spec.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if p, err := d.find(spec.ID); err != nil {
		return err
	} else if p != nil && !p.ended() {
		return fmt.Errorf("start sandbox %s: %w", spec.ID, ErrRunning)
	}
	if err := d.boot(ctx, spec); err != nil {
		return errors.Join(fmt.Errorf("start sandbox %s: %w", spec.ID, err), d.files.remove(spec.ID))
	}
	return nil
}

// boot leaves files behind when it fails, but no process.
func (d *local) boot(ctx context.Context, spec Spec) error {
	if err := d.files.create(spec.ID, filepath.Base(filepath.Dir(d.TokenFile(spec.ID)))); err != nil {
		return err
	}
	where, err := resolve(d.cfg)
	if err != nil {
		return err
	}
	// The path that the agent is told must not lead through a hidden link.
	token, err := filepath.EvalSymlinks(filepath.Dir(d.TokenFile(spec.ID)))
	if err != nil {
		return err
	}
	if err := d.files.writeToken(d.TokenFile(spec.ID), spec.Token); err != nil {
		return err
	}
	log, err := os.OpenFile(d.files.logPath(spec.ID), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s, err := clone(log)
	if err != nil {
		return err
	}
	defer s.close()
	return d.hand(ctx, spec, s, makeOrder(spec, where, filepath.Join(token, "token"), os.Getenv))
}

// hand takes a cloned stage into our books and then gives it its order: the
// other way round, a gateway that died between the two would leave a sandbox
// that nobody knows. It is watched once it is an agent: until then its end is
// an error of Start.
func (d *local) hand(ctx context.Context, spec Spec, s *stage, o order) error {
	p, err := holdChild(spec, s.pid)
	if err != nil {
		reap(s.pid)
		return err
	}
	err = d.files.writeRecord(spec.ID, record{identity: p.identity, Generation: spec.Generation})
	if err == nil {
		err = s.command(ctx, o)
	}
	if err == nil {
		err = d.watch(p)
	}
	if err != nil {
		reap(s.pid)
		return errors.Join(err, p.fd.Close())
	}
	d.cfg.Logger.Info("sandbox started", "sandbox_id", spec.ID, "generation", spec.Generation, "pid", s.pid)
	return nil
}

func (d *local) Stop(ctx context.Context, id string) error {
	return d.stop(ctx, id, d.files.removeRecord)
}

func (d *local) Delete(ctx context.Context, id string) error { return d.stop(ctx, id, d.files.remove) }

// stop ends the sandbox and then cleans up.
func (d *local) stop(ctx context.Context, id string, clean func(id string) error) error {
	if err := validID(id); err != nil {
		return err
	}
	unlock, err := d.turns.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := d.find(id)
	if err != nil {
		return err
	}
	if p != nil {
		d.expect(p)
		if err := p.end(ctx, d.cfg.StopGrace, d.closing); err != nil {
			return fmt.Errorf("stop sandbox %s: %w", id, err)
		}
	}
	return clean(id)
}

func (d *local) RenewToken(id string, token secret.String) error {
	if err := validID(id); err != nil {
		return err
	}
	return d.files.writeToken(d.TokenFile(id), token)
}

// expect marks the end of p as asked for: it will not be told.
func (d *local) expect(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.asked = true
}

// find returns the process of a sandbox, watched; nil if there is none. The
// caller has the turn of id.
func (d *local) find(id string) (*process, error) {
	d.mu.Lock()
	p, closed := d.procs[id], d.closed
	d.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if p != nil {
		return p, nil
	}
	rec, ok, err := d.files.readRecord(id)
	if err != nil || !ok || rec.Code != nil {
		return nil, err
	}
	return d.take(id, rec)
}

// take watches the process of a record; nil if it has ended.
func (d *local) take(id string, rec record) (*process, error) {
	fd, err := holdProcess(rec.identity)
	if err != nil || fd == nil {
		return nil, err
	}
	p := &process{id: id, generation: rec.Generation, identity: rec.identity, fd: fd, done: make(chan struct{})}
	if err := d.watch(p); err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	return p, nil
}

func (d *local) Close() error {
	d.mu.Lock()
	var err error
	if !d.closed {
		d.closed = true
		close(d.closing)
		for _, p := range d.procs {
			if cerr := p.fd.Close(); cerr != nil && !errors.Is(cerr, os.ErrClosed) {
				err = errors.Join(err, cerr)
			}
		}
	}
	d.mu.Unlock()
	d.watches.Wait()
	return err
}
