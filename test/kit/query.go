// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

func (b *Bed) query(ctx context.Context, into proto.Message, args ...string) error {
	r := b.CLI(ctx, args...)
	if r.Code != 0 {
		return fmt.Errorf("sandboxctl %s: exit %d: %s", strings.Join(args, " "), r.Code, r.Stderr)
	}
	return protojson.Unmarshal([]byte(r.Stdout), into)
}

// Health renders a health as STATE or STATE/REASON, without the prefix of the
// enum: "UNKNOWN/Stale", "HEALTHY", "UNHEALTHY/Refused".
func Health(h *openshellv1.ServiceHealth) string {
	state := strings.TrimPrefix(h.GetState().String(), "SERVICE_HEALTH_STATE_")
	if h.GetState() == openshellv1.ServiceHealthState_SERVICE_HEALTH_STATE_HEALTHY {
		return state
	}
	return state + "/" + h.GetReason()
}

// UntilHealth waits until the CLI answers one of the wanted healths, each
// given as Health renders it or, to leave the reason open, as the state alone.
func (b *Bed) UntilHealth(ctx context.Context, limit time.Duration, sandbox, name string, want ...string) error {
	what := fmt.Sprintf("%s/%s to be %s", sandbox, name, strings.Join(want, " or "))
	return Until(ctx, limit, what, func() (bool, string) {
		r, err := b.Service(ctx, sandbox, name)
		if err != nil {
			return false, err.Error()
		}
		got := Health(r.GetHealth())
		for _, w := range want {
			if got == w || strings.HasPrefix(got, w+"/") {
				return true, got
			}
		}
		return false, got
	})
}

// Until looks every Poll until f says yes. Its error says what was waited for,
// how long, and what was seen last.
func Until(ctx context.Context, limit time.Duration, what string, f func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(Poll)
	defer tick.Stop()
	began := time.Now()
	for {
		ok, seen := f()
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %v for %s; last seen: %s", time.Since(began).Round(time.Millisecond), what, seen)
		}
	}
}
