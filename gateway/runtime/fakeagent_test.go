// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary plays the agent when it is executed as "sandbox-agent run";
// the first word of its COMMAND says what it does.

// view is what a fake agent sees of its sandbox.
type view struct {
	Pid, Session int
	Host         string
	Args         []string
	Env          []string
	Token        string
	Addresses    []string
	Processes    int
	State        []string // every path below the state directory
	CanWrite     []string // directories of it in which a file could be made
	Stdin        string
	Uid          int
}

func fakeAgent(args []string) int {
	flags := map[string]string{}
	rest := args[2:]
	for len(rest) >= 2 && rest[0] != "--" {
		flags[rest[0]], rest = rest[1], rest[2:]
	}
	if len(rest) < 2 {
		fmt.Println("no command")
		return 90
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	switch cmd := rest[1:]; cmd[0] {
	case "view":
		return agentView(args, flags, cmd[1], term)
	case "exit":
		code, err := strconv.Atoi(cmd[1])
		if err != nil {
			return 91
		}
		return code
	case "serve":
		return agentServe(term)
	case "stubborn":
		return agentStubborn(len(cmd) == 1)
	case "session":
		return agentSession(flags, term)
	default:
		fmt.Println("unknown command")
		return 92
	}
}

// agentView prints a view of the sandbox and waits for SIGTERM.
func agentView(args []string, flags map[string]string, state string, term <-chan os.Signal) int {
	v := view{Pid: os.Getpid(), Args: args, Env: os.Environ(), Uid: os.Getuid()}
	v.Session, _ = unix.Getsid(0)
	v.Host, _ = os.Hostname()
	token, err := os.ReadFile(flags["--token-file"])
	v.Token = string(token)
	if err != nil {
		v.Token = err.Error()
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		v.Addresses = append(v.Addresses, a.String())
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	v.Processes = len(procs)
	err = filepath.WalkDir(state, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		v.State = append(v.State, path)
		probe := filepath.Join(path, "probe")
		if e.IsDir() && os.WriteFile(probe, nil, 0o600) == nil {
			v.CanWrite = append(v.CanWrite, path)
			return os.Remove(probe)
		}
		return nil
	})
	if err != nil {
		v.State = append(v.State, err.Error())
	}
	in, err := io.ReadAll(os.Stdin)
	v.Stdin = fmt.Sprintf("%s%v", in, err)
	if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
		return 93
	}
	<-term
	return 0
}

// agentServe answers on port 8080 with its host name, after it has seen that it
// reaches itself.
func agentServe(term <-chan os.Signal) int {
	ln, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		fmt.Println(err)
		return 94
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			host, _ := os.Hostname()
			_, _ = io.WriteString(conn, host)
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", "127.0.0.1:8080")
	if err != nil {
		fmt.Println(err)
		return 95
	}
	said, err := io.ReadAll(conn)
	fmt.Printf("8080 is %s %v\n", said, err)
	<-term
	return 0
}

// agentStubborn ignores SIGTERM, and so does its child.
func agentStubborn(parent bool) int {
	signal.Ignore(syscall.SIGTERM)
	if parent {
		child := exec.Command("/proc/self/exe", "run", "--", "stubborn", "child")
		child.Args[0] = agentName
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			fmt.Println(err)
			return 96
		}
	} else {
		fmt.Println("ready")
	}
	for {
		if err := syscall.Pause(); err != syscall.EINTR {
			return 97
		}
	}
}

// agentSession dials the supervisor socket, for ever, and answers each line by
// the token that its file has now.
func agentSession(flags map[string]string, term <-chan os.Signal) int {
	path := strings.TrimPrefix(flags["--gateway"], "unix:")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	go func() {
		for ; ; <-tick.C {
			conn, err := net.Dial("unix", path)
			if err != nil {
				continue
			}
			for in := bufio.NewScanner(conn); in.Scan(); {
				token, err := os.ReadFile(flags["--token-file"])
				if err != nil {
					token = []byte(err.Error())
				}
				if _, err := fmt.Fprintf(conn, "%s\n", token); err != nil {
					break
				}
			}
			_ = conn.Close()
		}
	}()
	<-term
	return 0
}

// variable returns a variable of an environment.
func variable(env []string, name string) string {
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if i < 0 {
		return ""
	}
	return strings.TrimPrefix(env[i], name+"=")
}
