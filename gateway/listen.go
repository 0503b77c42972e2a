// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sandbox-agent/sandbox-agent/gateway/identity"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// listeners are all that the gateway is reached by.
type listeners struct {
	grpc, http, supervisor, socket, ops net.Listener
}

// listen takes what was inherited and binds the rest: everything or nothing.
func listen(c Config) (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := c.checkInherited(); err != nil {
		return l, err
	}
	d := DefaultConfig()
	for _, b := range []struct {
		field, name, addr, standard string
		into                        *net.Listener
	}{
		{"grpc-listen", SocketGRPC, c.GRPCListen, d.GRPCListen, &l.grpc},
		{"http-listen", SocketHTTP, c.HTTPListen, d.HTTPListen, &l.http},
		{"supervisor-listen", SocketSupervisor, c.SupervisorListen, d.SupervisorListen, &l.supervisor},
		{"ops-listen", SocketOps, c.OpsListen, d.OpsListen, &l.ops},
	} {
		if passed := c.Inherited[b.name]; len(passed) > 0 {
			*b.into, err = passed[0], agree(b.addr, b.standard, passed[0].Addr())
		} else {
			*b.into, err = net.Listen("tcp", b.addr)
		}
		if err != nil {
			return l, fmt.Errorf("%s: %w", b.field, err)
		}
	}
	if passed := c.Inherited[SocketLocal]; len(passed) > 0 {
		l.socket, err = passed[0], agreeSocket(c.SupervisorSocket, passed[0].Addr())
	} else {
		l.socket, err = listenSocket(c.socket())
	}
	if err != nil {
		return l, fmt.Errorf("supervisor-socket: %w", err)
	}
	return l, nil
}

// listenSocket makes the unix socket anew if nobody listens on it. Agents need
// a token, so that anybody on this host may connect.
func listenSocket(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := removeRemnant(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeRemnant removes the socket of a process that has ended without doing
// so, and nothing else.
func removeRemnant(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		return errors.Join(fmt.Errorf("%s: %w", path, syscall.EADDRINUSE), c.Close())
	}
	return os.Remove(path)
}

// lockDirectory takes the lock that the store takes where it lives in the
// directory itself. The kernel drops it when this process ends.
func lockDirectory(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "gateway.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = store.ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

func (l listeners) close() {
	for _, x := range []net.Listener{l.grpc, l.http, l.supervisor, l.socket, l.ops} {
		if x != nil {
			x.Close()
		}
	}
}

// ClientFile is where clients on this host find the gateway.
const ClientFile = "client.json"

// client is the content of ClientFile; paths are relative to its directory.
type client struct {
	API        string `json:"api"`
	HTTP       string `json:"http"`
	Supervisor string `json:"supervisor"`
	Socket     string `json:"supervisor_socket"`
	Ops        string `json:"ops"`
	CAFile     string `json:"ca_file"`
	TokenFile  string `json:"token_file"`
}

// writeClientFile tells clients on this host where the gateway listens.
func writeClientFile(dir string, l listeners) error {
	b, err := json.MarshalIndent(client{
		API:        "https://" + l.grpc.Addr().String(),
		HTTP:       "http://" + l.http.Addr().String(),
		Supervisor: "https://" + l.supervisor.Addr().String(),
		Socket:     "unix:" + l.socket.Addr().String(),
		Ops:        "http://" + l.ops.Addr().String(),
		CAFile:     identity.CAFile,
		TokenFile:  identity.AdminTokenFile,
	}, "", "  ")
	if err != nil {
		return err
	}
	return identity.WriteFile(filepath.Join(dir, ClientFile), append(b, '\n'))
}
