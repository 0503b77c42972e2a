// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
)

// cliDriver drives sandboxctl, as a script would.
type cliDriver struct {
	*stage
	watch *cliWatch
}

// cliWatch is a `service watch` under way.
type cliWatch struct {
	cmd      *exec.Cmd
	lines    chan object // closed at the end
	services map[string]object
}

func (d *cliDriver) close() error {
	if d.watch == nil {
		return nil
	}
	w := d.watch
	d.watch = nil
	w.cmd.Process.Signal(syscall.SIGINT)
	for range w.lines {
	}
	w.cmd.Wait() // an interrupted command says so with its status
	return nil
}

func (d *cliDriver) do(ctx context.Context, call object) object {
	a := args{call}
	switch a.text("op") {
	case "watch_open", "watch_until", "watch_idle", "watch_close":
		out, err := d.watching(ctx, a)
		if err != nil {
			return normal(object{"error": goError(err)})
		}
		return normal(object{"ok": out})
	}
	words, read := d.command(a)
	if words == nil {
		return failed("Driver", "no op "+a.text("op"))
	}
	if workspace := a.text("workspace"); workspace != "" {
		words = append(words, "--workspace", workspace)
	}
	r := d.CLI(ctx, append(words, "-o", "json")...)
	if r.Code != 0 {
		return failed(map[int]string{3: "NotFound", 4: "DeadlineExceeded"}[r.Code], r.Stderr)
	}
	out, err := read(r.Stdout)
	if err != nil {
		return failed("Driver", fmt.Sprintf("%v in %q", err, r.Stdout))
	}
	return normal(object{"ok": out})
}

// reader makes a result of what a command printed.
type reader func(stdout string) (object, error)

// reading decodes protobuf JSON.
func reading[M proto.Message](m M, view func(M) object) reader {
	return func(stdout string) (object, error) {
		if err := protojson.Unmarshal([]byte(stdout), m); err != nil {
			return nil, err
		}
		return view(m), nil
	}
}

// command is the command of a call, and how to read its output.
func (d *cliDriver) command(a args) ([]string, reader) {
	name, service := a.text("sandbox"), a.text("service")
	target := []string{name}
	if service != "" {
		target = append(target, service)
	}
	on := func(words ...string) []string { return append(words, target...) }
	missing := func(words []string) []string {
		if a.truth("allow_missing") {
			words = append(words, "--allow-missing")
		}
		return words
	}
	asSandbox := reading(&openshellv1.SandboxResponse{}, sandboxView)
	asService := reading(&openshellv1.ServiceEndpointResponse{}, serviceView)
	switch op := a.text("op"); op {
	case "health":
		return []string{"gateway", "status"}, reading(&openshellv1.HealthResponse{}, func(r *openshellv1.HealthResponse) object {
			return object{"status": strings.TrimPrefix(r.GetStatus().String(), "SERVICE_STATUS_")}
		})
	case "create_sandbox":
		return createWords(a), asSandbox
	case "get_sandbox", "stop_sandbox", "start_sandbox":
		return []string{"sandbox", strings.TrimSuffix(op, "_sandbox"), name}, asSandbox
	case "delete_sandbox":
		return missing([]string{"sandbox", "delete", name}), reading(&openshellv1.DeleteSandboxResponse{}, func(r *openshellv1.DeleteSandboxResponse) object {
			return object{"outcome": outcomeWord(r.GetOutcome())}
		})
	case "list_sandboxes":
		return []string{"sandbox", "list", "--selector", a.text("selector")}, reading(&openshellv1.ListSandboxesResponse{}, sandboxNames)
	case "expose":
		words := []string{"service", "expose", name, strconv.Itoa(a.number("port"))}
		if service != "" {
			words = append(words, service)
		}
		if check := a.check(); check != nil {
			words = append(words, "--readiness-path", check.GetPath())
		}
		return words, asService
	case "get":
		return on("service", "get"), asService
	case "delete":
		return missing(on("service", "delete")), reading(&openshellv1.DeleteServiceResponse{}, func(r *openshellv1.DeleteServiceResponse) object {
			return object{"outcome": outcomeWord(r.GetOutcome())}
		})
	case "list":
		return []string{"service", "list", name}, reading(&openshellv1.ListServicesResponse{}, serviceCount)
	case "wait":
		words := on("service", "wait")
		return append(words, "--for", strings.Join(a.texts("states"), ","), "--timeout", a.duration("timeout_ms").String()),
			reading(&sandboxv1.WaitServiceResponse{}, func(r *sandboxv1.WaitServiceResponse) object {
				view := serviceView(r.GetService())
				view["elapsed_ms"] = r.GetElapsed().AsDuration().Milliseconds()
				return view
			})
	}
	return nil, nil
}

func createWords(a args) []string {
	words := []string{"sandbox", "create", a.text("sandbox")}
	for k, v := range a.labels() {
		words = append(words, "--label", k+"="+v)
	}
	exposures, _ := a.object["exposures"].([]any)
	for _, e := range exposures {
		e := args{e.(object)}
		what := strconv.Itoa(e.number("port"))
		if e.text("service") != "" {
			what = e.text("service") + "=" + what
		}
		words = append(words, "--expose", what)
		if check := e.check(); check != nil {
			words = append(words, "--expose-readiness-path", check.GetPath())
		}
	}
	return words
}

func sandboxNames(r *openshellv1.ListSandboxesResponse) object {
	names := []string{}
	for _, s := range r.GetSandboxes() {
		names = append(names, s.GetMetadata().GetName())
	}
	slices.Sort(names)
	return object{"sandboxes": names}
}

func serviceCount(r *openshellv1.ListServicesResponse) object {
	names := map[string]bool{}
	for _, s := range r.GetServices() {
		names[s.GetEndpoint().GetName()] = true
	}
	return object{"count": len(r.GetServices()), "distinct": len(names)}
}

func (d *cliDriver) watching(ctx context.Context, a args) (object, error) {
	switch a.text("op") {
	case "watch_open":
		return d.openWatch(ctx, a.text("sandbox"))
	case "watch_close":
		return object{}, d.close()
	case "watch_idle":
		over := time.After(a.duration("ms"))
		for n := 0; ; n++ {
			if _, err := d.watch.next(over); err == errLimit {
				return object{"updates": n}, nil
			} else if err != nil {
				return nil, err
			}
		}
	}
	over := time.After(a.duration("limit_ms"))
	for {
		view, there := d.watch.services[a.text("service")]
		switch {
		case !there && a.truth("gone"):
			return object{"gone": true}, nil
		case there && !a.truth("gone") && view["state"] == a.text("state") && (a.text("reason") == "" || view["reason"] == a.text("reason")):
			return view, nil
		}
		if _, err := d.watch.next(over); err != nil {
			return nil, err
		}
	}
}

func (d *cliDriver) openWatch(ctx context.Context, name string) (object, error) {
	w := &cliWatch{cmd: exec.CommandContext(ctx, filepath.Join(d.Bin, "sandboxctl"), "service", "watch", name, "-o", "json"), lines: make(chan object), services: map[string]object{}}
	w.cmd.Env = d.env
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go w.read(out)
	d.watch = w
	over := time.After(20 * time.Second)
	for {
		event, err := w.next(over)
		if err != nil {
			return nil, err
		}
		if event == "complete" {
			break
		}
	}
	views := []object{}
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		views = append(views, w.services[name])
	}
	return object{"services": views}, nil
}

func (w *cliWatch) read(out io.Reader) {
	defer close(w.lines)
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		event := object{}
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			event["event"] = "no JSON: " + scanner.Text()
		}
		w.lines <- event
	}
}

// next takes in one event and returns its name.
func (w *cliWatch) next(over <-chan time.Time) (string, error) {
	select {
	case e, open := <-w.lines:
		if !open {
			return "", fmt.Errorf("the command has ended")
		}
		event, _ := e["event"].(string)
		if event != "service" && event != "removed" {
			return event, nil
		}
		m := &openshellv1.ServiceEndpointResponse{}
		if err := protojson.Unmarshal([]byte(shown(e["service"])), m); err != nil {
			return "", err
		}
		delete(w.services, m.GetEndpoint().GetName())
		if event == "service" {
			w.services[m.GetEndpoint().GetName()] = normal(serviceView(m))
		}
		return event, nil
	case <-over:
		return "", errLimit
	}
}

// coarse leaves of what is wanted what exit codes and texts can show.
func coarse(want object) object {
	e, ok := want["error"].(object)
	if !ok {
		return want
	}
	kind, _ := e["kind"].(string)
	if kind != "NotFound" && kind != "DeadlineExceeded" {
		kind = ""
	}
	out := object{"kind": kind}
	if message, there := e["message"]; there {
		out["message"] = message
	}
	return object{"error": out}
}
