// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"os"
	"time"
)

// watch starts the one goroutine that sees p end.
func (d *local) watch(p *process) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.procs[p.id] = p
	d.watches.Go(func() { d.await(p) })
	return nil
}

// await parks until p has ended and tells it, unless it was asked for.
func (d *local) await(p *process) {
	start := time.Now()
	code, err := p.wait()
	if err != nil {
		return // closed
	}
	p.code = code
	d.mu.Lock()
	asked := p.asked
	d.mu.Unlock()
	if !asked {
		// For the gateway that is started after one that dies right here.
		rec := record{identity: p.identity, Generation: p.generation, Code: &code}
		if err := d.files.writeRecord(p.id, rec); err != nil {
			d.cfg.Logger.Warn("exit code was not recorded", "sandbox_id", p.id, "error", err)
		}
	}
	d.cfg.Logger.Info("sandbox ended", "sandbox_id", p.id, "generation", p.generation, "code", code, "asked", asked,
		"watched", time.Since(start), "log_bytes", d.files.logSize(p.id))
	close(p.done)
	d.mu.Lock()
	if d.procs[p.id] == p {
		delete(d.procs, p.id)
	}
	d.mu.Unlock()
	if err := p.fd.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		d.cfg.Logger.Warn("pidfd was not closed", "sandbox_id", p.id, "error", err)
	}
	if !asked {
		d.cfg.OnExit(Exit{ID: p.id, Generation: p.generation, Code: code})
	}
}
