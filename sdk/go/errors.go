// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kind is a gRPC code as a sentinel. The sentinels are constants: nobody can
// assign to them.
type kind codes.Code

func (k kind) Error() string { return "sandbox: " + words(codes.Code(k)) }

// What a call's error is, for errors.Is. Each method says which of the first
// group it returns; any call may return one of the second.
const (
	ErrNotFound           = kind(codes.NotFound)           // no such sandbox or service
	ErrAlreadyExists      = kind(codes.AlreadyExists)      // the name is taken
	ErrInvalidArgument    = kind(codes.InvalidArgument)    // a field breaks a rule; the message names it
	ErrFailedPrecondition = kind(codes.FailedPrecondition) // not in this state
	ErrAborted            = kind(codes.Aborted)            // somebody else's change came first; read, then try again

	ErrUnauthenticated   = kind(codes.Unauthenticated)   // no token, or not this gateway's
	ErrPermissionDenied  = kind(codes.PermissionDenied)  // the token is not for this
	ErrUnavailable       = kind(codes.Unavailable)       // not reachable, not trusted (TLS), or going away
	ErrTimeout           = kind(codes.DeadlineExceeded)  // the context's deadline passed; also context.DeadlineExceeded
	ErrCanceled          = kind(codes.Canceled)          // the context was canceled (also context.Canceled), or the client closed
	ErrResourceExhausted = kind(codes.ResourceExhausted) // a limit of the gateway is reached
	ErrUnimplemented     = kind(codes.Unimplemented)     // a gateway without this call
	ErrInternal          = kind(codes.Internal)          // a fault of the gateway
)

// Error is a call that failed.
type Error struct {
	Op      string     // what was asked: "get service"
	Code    codes.Code // never OK
	Message string     // the gateway's words, or the connection's; may hold any character
	err     error
}

// Error shows a message with unprintable characters quoted.
func (e *Error) Error() string {
	return fmt.Sprintf("sandbox: %s: %s: %s", e.Op, words(e.Code), printable(e.Message))
}

// printable quotes a text that holds an unprintable character.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Unwrap returns gRPC's error, so that status.FromError finds it.
func (e *Error) Unwrap() error { return e.err }

// Is reports whether target is the sentinel of the code, or the context error
// that the code stands for.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	case context.Canceled:
		return e.Code == codes.Canceled
	}
	k, ok := target.(kind)
	return ok && codes.Code(k) == e.Code
}

func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	return &Error{Op: op, Code: s.Code(), Message: s.Message(), err: err}
}

// words spells a code as people write it: "not found".
func words(c codes.Code) string {
	var b strings.Builder
	for i, r := range c.String() {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
