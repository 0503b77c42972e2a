// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import "time"

// alarm is a timer for the next instant at which age alone changes an answer.
type alarm struct{ timer *time.Timer }

func newAlarm() *alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &alarm{t}
}

// set makes the alarm ring at an instant, or up to slack later; never if the
// instant is zero.
func (a *alarm) set(at time.Time) {
	if at.IsZero() {
		a.timer.Stop()
		return
	}
	a.timer.Reset(time.Until(at) + slack)
}

func (a *alarm) c() <-chan time.Time { return a.timer.C }

func (a *alarm) stop() { a.timer.Stop() }
