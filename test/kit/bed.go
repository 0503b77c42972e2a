// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
)

// Poll is how often an outer state is looked at.
const Poll = 50 * time.Millisecond

// Bed is a directory with a gateway in it, and the binaries to use it.
type Bed struct {
	Bin   string // directory of the binaries
	State string // the gateway's state directory
	Log   io.Writer
}

// Root returns the top of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// New returns a Bed in dir, with the binaries that make build has made.
func New(dir string, log io.Writer) (*Bed, error) {
	b := &Bed{Bin: filepath.Join(Root(), "bin"), State: filepath.Join(dir, "state"), Log: log}
	for _, name := range []string{"sandbox-gateway", "sandbox-agent", "sandboxctl"} {
		if _, err := os.Stat(filepath.Join(b.Bin, name)); err != nil {
			return nil, fmt.Errorf("%w: run make build first", err)
		}
	}
	return b, os.MkdirAll(b.State, 0o700)
}

// Client is where the gateway says that it listens.
type Client struct {
	API        string `json:"api"`
	HTTP       string `json:"http"`
	Supervisor string `json:"supervisor"`
	Socket     string `json:"supervisor_socket"`
	Ops        string `json:"ops"`
}

// Client reads the gateway's client file.
func (b *Bed) Client() (c Client, err error) {
	content, err := os.ReadFile(filepath.Join(b.State, "client.json"))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(content, &c)
}

// Gateway starts a gateway on free ports and waits until its API answers. A
// gateway that had the state directory before keeps its ports.
func (b *Bed) Gateway(ctx context.Context, args ...string) (*Process, error) {
	listen := map[string]string{"grpc": "", "http": "", "supervisor": "", "ops": ""}
	if c, err := b.Client(); err == nil {
		listen = map[string]string{"grpc": c.API, "http": c.HTTP, "supervisor": c.Supervisor, "ops": c.Ops}
	}
	all := []string{"serve", "--state-dir", b.State, "--drain-grace", "0s"}
	for name, url := range listen {
		addr := "127.0.0.1:0"
		if url != "" {
			_, addr, _ = cut(url)
		}
		all = append(all, "--"+name+"-listen", addr)
	}
	os.Remove(filepath.Join(b.State, "client.json"))
	p, err := b.Start("sandbox-gateway", append(all, args...)...)
	if err != nil {
		return nil, err
	}
	err = Until(ctx, 20*time.Second, "the gateway to answer", func() (bool, string) {
		if p.Exited() {
			return false, "it has ended"
		}
		if _, err := b.Client(); err != nil {
			return false, err.Error()
		}
		r := b.CLI(ctx, "gateway", "status")
		return r.Code == 0, r.Stderr
	})
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func cut(url string) (scheme, addr string, ok bool) {
	before, after, ok := bytes.Cut([]byte(url), []byte("://"))
	return string(before), string(after), ok
}

// Result is what a command left behind.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// CLI runs sandboxctl.
func (b *Bed) CLI(ctx context.Context, args ...string) Result {
	cmd := exec.CommandContext(ctx, filepath.Join(b.Bin, "sandboxctl"), args...)
	cmd.Env = append(os.Environ(), "SANDBOX_GATEWAY_STATE_DIR="+b.State)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code, r.Stderr = -1, err.Error()
	}
	return r
}

// Service returns what the CLI says of a service.
func (b *Bed) Service(ctx context.Context, sandbox, name string) (*openshellv1.ServiceEndpointResponse, error) {
	args := []string{"service", "get", sandbox, "-o", "json"}
	if name != "" {
		args = append(args, name)
	}
	m := &openshellv1.ServiceEndpointResponse{}
	return m, b.query(ctx, m, args...)
}

// Sandbox returns what the CLI says of a sandbox.
func (b *Bed) Sandbox(ctx context.Context, name string) (*openshellv1.SandboxResponse, error) {
	m := &openshellv1.SandboxResponse{}
	return m, b.query(ctx, m, "sandbox", "get", name, "-o", "json")
}
