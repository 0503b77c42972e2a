// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// Exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitTimeout  = 4
)

// usageError is a command line that cannot be carried out as it is written.
type usageError struct {
	err  error
	path string // of the command whose --help tells more, or empty
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// usageIn is a usage error of one command: it begins with the command's name
// and points at its help.
func usageIn(cmd *cobra.Command, format string, args ...any) error {
	path := cmd.CommandPath()
	err := fmt.Errorf(format, args...)
	if cmd.HasParent() {
		err = fmt.Errorf("%s: %w", strings.TrimPrefix(path, cmd.Root().Name()+" "), err)
	}
	return &usageError{err: err, path: path}
}

// failure is an error with what to do next.
type failure struct {
	err  error
	next string
}

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// verdict is how a run ended, in words.
type verdict struct {
	code int
	text string
	next string // a sentence, or empty
}

// report writes what went wrong and what to do next, and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitDone
	}
	v := judge(err, a.where, time.Duration(a.flags.timeout))
	a.note("sandboxctl: %s", v.text)
	if v.next != "" {
		a.note("  %s", v.next)
	}
	return v.code
}

// judge finds the words for an error.
func judge(err error, where sandbox.Found, timeout time.Duration) verdict {
	if usage, ok := errors.AsType[*usageError](err); ok {
		v := verdict{code: exitUsage, text: usage.Error()}
		if usage.path != "" {
			v.next = "See `" + usage.path + " --help`."
		}
		return v
	}
	if failed, ok := errors.AsType[*failure](err); ok {
		return verdict{code: exitFailed, text: failed.Error(), next: failed.next}
	}
	if wrong, ok := errors.AsType[*sandbox.DiscoveryError](err); ok {
		return judgeDiscovery(wrong)
	}
	if late, ok := errors.AsType[*lateError](err); ok {
		return verdict{code: exitTimeout, text: late.Error(), next: "--timeout waits longer."}
	}
	if wait, ok := errors.AsType[*sandbox.WaitError](err); ok {
		return judgeWait(wait)
	}
	if call, ok := errors.AsType[*sandbox.Error](err); ok {
		return judgeCall(call, where, timeout)
	}
	return verdict{code: exitFailed, text: err.Error()}
}

// judgeWait finds the words for a wait that has ended without its state: the
// gateway's, which name target, elapsed time, last state and last reason.
func judgeWait(wait *sandbox.WaitError) verdict {
	v := verdict{code: exitFailed, text: wait.Error()}
	if call, ok := errors.AsType[*sandbox.Error](wait.Unwrap()); ok && call.Message != "" {
		v.text = call.Message
	}
	f := wait.Failure
	if errors.Is(wait, sandbox.ErrTimeout) {
		v.code = exitTimeout
		v.next = "`sandboxctl service history " + strings.TrimSpace(f.GetSandbox()+" "+f.GetName()) + "` shows how it was; --timeout waits longer."
	}
	return v
}

// judgeCall finds the words for a call that failed.
func judgeCall(call *sandbox.Error, where sandbox.Found, timeout time.Duration) verdict {
	said := call.Message
	if said == "" {
		said = call.Op + " failed with code " + call.Code.String()
	}
	switch {
	case errors.Is(call, sandbox.ErrNotFound):
		return verdict{exitNotFound, said, "`sandboxctl sandbox list` and `sandboxctl service list` show what there is; --workspace names another workspace."}
	case errors.Is(call, sandbox.ErrInvalidArgument):
		return verdict{exitUsage, said, ""}
	case errors.Is(call, sandbox.ErrAlreadyExists):
		return verdict{exitFailed, said, "Choose another name, or delete that one first."}
	case errors.Is(call, sandbox.ErrAborted):
		return verdict{exitFailed, said, "Somebody else's change came first: look at it, then run the command again."}
	case errors.Is(call, sandbox.ErrFailedPrecondition), errors.Is(call, sandbox.ErrResourceExhausted):
		return verdict{exitFailed, said, ""}
	case errors.Is(call, sandbox.ErrTimeout):
		return verdict{
			exitTimeout, fmt.Sprintf("%s: no answer from the gateway at %s within %s", call.Op, where.Address, timeout),
			"See whether it answers at all with `sandboxctl gateway status`, or wait longer with --timeout.",
		}
	case errors.Is(call, sandbox.ErrCanceled):
		return verdict{exitFailed, call.Op + ": interrupted; the gateway may have carried it out", ""}
	case errors.Is(call, sandbox.ErrUnauthenticated):
		return verdict{
			exitFailed, fmt.Sprintf("the gateway at %s refused the token%s: %s", where.Address, from(where.TokenFrom), said),
			"Name a file that holds this gateway's token with --token-file or SANDBOX_TOKEN_FILE.",
		}
	case errors.Is(call, sandbox.ErrPermissionDenied):
		return verdict{exitFailed, fmt.Sprintf("the token%s does not allow this: %s", from(where.TokenFrom), said), ""}
	case errors.Is(call, sandbox.ErrUnavailable):
		return verdict{
			exitFailed, fmt.Sprintf("no connection to the gateway at %s (named by %s): %s", where.Address, where.AddressFrom, said),
			"Start it with `sandbox-gateway serve`, or name another with --gateway; --ca-file names the authority of its certificate.",
		}
	case errors.Is(call, sandbox.ErrUnimplemented):
		return verdict{
			exitFailed, fmt.Sprintf("the gateway at %s cannot do this (%s): %s", where.Address, call.Op, said),
			"`sandboxctl gateway status` shows its version, `sandboxctl version` that of this command.",
		}
	default:
		return verdict{exitFailed, fmt.Sprintf("%s: %s", call.Op, said), "The gateway's log tells more."}
	}
}

func from(source string) string {
	if source == "" {
		return ""
	}
	return " from " + source
}
