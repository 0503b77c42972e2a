// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/api"
)

// fail is the status of a wait that has ended without what it was for. Its
// text says what was waited for, how long, and what was seen last.
func (w *wait) fail(cause sandboxv1.WaitFailureCause) error {
	now := time.Now()
	f := &sandboxv1.WaitFailure{
		Cause: cause, Workspace: w.goal.workspace, Sandbox: w.goal.sandbox, Name: w.goal.service, States: w.goal.states,
		Elapsed: durationpb.New(now.Sub(w.began)), SandboxPhase: openshellv1.SandboxPhase(w.last.phase), ExitCode: w.last.exitCode,
		LastHealth: api.Health(w.last.answer, w.last.service.HasCheck, now),
	}
	code := codes.FailedPrecondition
	if cause == sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT {
		code = codes.DeadlineExceeded
	}
	plain := status.New(code, failureText(f))
	detailed, err := plain.WithDetails(f)
	if err != nil { // the message cannot be packed
		return plain.Err()
	}
	return detailed.Err()
}

func failureText(f *sandboxv1.WaitFailure) string {
	target := api.ServiceSubject(f.GetWorkspace(), f.GetSandbox(), f.GetName())
	elapsed := f.GetElapsed().AsDuration().Round(10 * time.Millisecond)
	last := "last seen " + stateWord(f.GetLastHealth().GetState())
	if reason := f.GetLastHealth().GetReason(); reason != "" {
		last += " (" + reason + ")"
	}
	if f.GetCause() == sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_TIMEOUT {
		return fmt.Sprintf("%s was not %s within %v; %s", target, stateWords(f.GetStates()), elapsed, last)
	}
	return fmt.Sprintf("%s will not be %s: after %v %s; %s", target, stateWords(f.GetStates()), elapsed, causeWords(f), last)
}

func causeWords(f *sandboxv1.WaitFailure) string {
	switch f.GetCause() {
	case sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_STOPPED:
		return "the sandbox is stopped"
	case sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SANDBOX_DELETED:
		return "the sandbox is deleted"
	case sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_SERVICE_DELETED:
		return "the service is deleted"
	case sandboxv1.WaitFailureCause_WAIT_FAILURE_CAUSE_MAIN_PROCESS_EXITED:
		if f.ExitCode != nil && f.GetExitCode() >= 0 {
			return fmt.Sprintf("the main process has ended with status %d", f.GetExitCode())
		}
		return "the main process has ended with an unknown status"
	}
	return "the wait has ended"
}

// stateWord is a state as people read it: UNKNOWN, HEALTHY, UNHEALTHY.
func stateWord(s openshellv1.ServiceHealthState) string {
	return strings.TrimPrefix(s.String(), "SERVICE_HEALTH_STATE_")
}

func stateWords(list []openshellv1.ServiceHealthState) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = stateWord(s)
	}
	return strings.Join(words, " or ")
}
