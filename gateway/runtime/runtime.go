// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/secret"
)

// Errors that drivers return wrapped.
var (
	// ErrRunning: Start found a process of this sandbox that still runs.
	ErrRunning = errors.New("the sandbox is running")
	// ErrUnsupported: this machine's kernel lacks, or refuses, what the local
	// driver needs. The text names the feature and what to look at.
	ErrUnsupported = errors.New("not supported on this machine")
	// ErrClosed: the driver was closed.
	ErrClosed = errors.New("the driver is closed")
	// ErrInvalid: a field of the Spec or the Config is malformed; the text names it.
	ErrInvalid = errors.New("invalid")
)

// CodeUnknown is the exit code of a process that ended unobserved.
const CodeUnknown = -1

// DefaultStopGrace is how long an agent has between SIGTERM and SIGKILL: its
// relays' grace and its command's (5 s each), and a margin.
const DefaultStopGrace = 12 * time.Second

// Spec is what a sandbox is to be.
type Spec struct {
	ID          string // names files; letters, digits, '-' and '_', at most 64
	Workspace   string
	Name        string // host name inside; a DNS label
	Generation  uint64 // copied into Exit
	Token       secret.String
	Command     []string          // empty: the agent alone
	Environment map[string]string // beside PATH and HOME
	LogLevel    string            // SANDBOX_AGENT_LOG_LEVEL of the agent; empty: its default
}

// Exit says that a sandbox's processes have ended without having been asked.
type Exit struct {
	ID         string
	Generation uint64
	Code       int // 0..255, 128 + signal, or CodeUnknown
}

// Driver boots sandboxes. It is safe for concurrent use; calls for the same
// sandbox take turns.
type Driver interface {
	// Name is what an API calls this driver: "external" or "local".
	Name() string
	// Start writes the token file and boots the sandbox; it returns when the
	// agent has been executed. When it fails it leaves nothing behind.
	Start(ctx context.Context, spec Spec) error
	// Stop ends the sandbox and returns when every process is gone: gracefully,
	// then, after the grace or when ctx ends, hard. It needs no Adopt before it,
	// and succeeds if nothing runs. The files stay.
	Stop(ctx context.Context, id string) error
	// Delete is Stop, then removal of the files.
	Delete(ctx context.Context, id string) error
	// RenewToken replaces the token file atomically. It fails with
	// fs.ErrNotExist for a sandbox that was never started here.
	RenewToken(id string, token secret.String) error
	// Adopt is called once after a start of the gateway, with every sandbox that
	// should be running: those that run are watched from now on, for those that
	// do not, OnExit is called before Adopt returns.
	Adopt(ctx context.Context, specs []Spec) error
	// TokenFile is where the agent of that sandbox finds its token.
	TokenFile(id string) string
	// Close stops watching and returns when no OnExit is running; sandboxes go
	// on. It must not be called from OnExit.
	Close() error
}

// Config is shared by the drivers; external uses Dir and Logger alone.
type Config struct {
	// Dir holds one directory per sandbox: STATE_DIR/sandboxes. Required.
	Dir string
	// StateDir is hidden from local sandboxes. Empty: the parent of Dir.
	StateDir string
	// Socket is the supervisor unix socket. If it is below StateDir it must be
	// in a directory of its own, which local sandboxes see read-only (a directory,
	// so that a socket made anew is seen too).
	Socket string
	// AgentPath is the sandbox-agent binary. Empty: beside the gateway's
	// executable, then in PATH. It must be outside StateDir.
	AgentPath string
	// OnExit is told once of each end that nobody asked for. It may call the
	// driver (not Close). An end that raced with a Stop may be told while Stop
	// runs. nil: nobody is told.
	OnExit func(Exit)
	// StopGrace is between SIGTERM and SIGKILL; 0: DefaultStopGrace.
	StopGrace time.Duration
	Logger    *slog.Logger
}

const maxID = 64

// validID refuses what could name anything but one entry of Dir.
func validID(id string) error {
	if id == "" || len(id) > maxID || id[0] == '-' {
		return fmt.Errorf("sandbox id: %w: must have 1 to %d characters and not begin with '-'", ErrInvalid, maxID)
	}
	if strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return fmt.Errorf("sandbox id: %w: only letters, digits, '-' and '_' are allowed", ErrInvalid)
	}
	return nil
}

// validate checks what a driver relies on; names and sizes are the API's care.
func (s Spec) validate() error {
	if err := validID(s.ID); err != nil {
		return err
	}
	if s.Token.IsZero() {
		return fmt.Errorf("token: %w: is empty", ErrInvalid)
	}
	if s.Name == "" || len(s.Name) > 63 || strings.ContainsFunc(s.Name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) {
		return fmt.Errorf("name: %w: must be a lowercase DNS label", ErrInvalid)
	}
	for name, value := range s.Environment {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("environment: %w: names must not be empty or contain '=', nothing may contain a zero byte", ErrInvalid)
		}
	}
	for _, arg := range s.Command {
		if strings.Contains(arg, "\x00") {
			return fmt.Errorf("command: %w: arguments must not contain a zero byte", ErrInvalid)
		}
	}
	return nil
}
