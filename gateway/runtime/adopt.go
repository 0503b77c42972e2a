// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
)

// Adopt takes each sandbox in turn. A process of another generation than the
// spec's is what a crash between a stop and a start left: it is killed, and the
// spec's generation is reported as ended. One that cannot be adopted keeps no
// other from it.
func (d *local) Adopt(ctx context.Context, specs []Spec) error {
	var errs []error
	for _, spec := range specs {
		exit, err := d.adopt(ctx, spec)
		if err != nil {
			errs = append(errs, fmt.Errorf("adopt sandbox %s: %w", spec.ID, err))
			continue
		}
		if exit != nil {
			d.cfg.Logger.Info("sandbox had ended", "sandbox_id", exit.ID, "generation", exit.Generation, "code", exit.Code)
			d.cfg.OnExit(*exit)
		}
	}
	return errors.Join(errs...)
}

// adopt returns the exit to report, nil if the sandbox runs.
func (d *local) adopt(ctx context.Context, spec Spec) (*Exit, error) {
	if err := validID(spec.ID); err != nil {
		return nil, err
	}
	unlock, err := d.turns.lock(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	p, err := d.find(spec.ID)
	if err != nil {
		return nil, err
	}
	exit := &Exit{ID: spec.ID, Generation: spec.Generation, Code: CodeUnknown}
	switch {
	case p == nil:
		rec, ok, err := d.files.readRecord(spec.ID)
		if ok && rec.Code != nil && rec.Generation == spec.Generation {
			exit.Code = *rec.Code
		}
		return exit, err
	case p.generation != spec.Generation:
		d.expect(p)
		return exit, p.end(ctx, 0, d.closing)
	}
	d.cfg.Logger.Info("sandbox adopted", "sandbox_id", spec.ID, "generation", spec.Generation, "pid", p.identity.Pid)
	return nil, nil
}
