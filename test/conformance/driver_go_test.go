// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// goDriver drives the Go SDK.
type goDriver struct {
	c       *sandbox.Client
	watch   *sandbox.ServiceWatch
	updates chan sandbox.ServiceUpdate
	end     error // set before updates is closed
}

func newGoDriver(t *testing.T, s *stage) *goDriver {
	t.Helper()
	return &goDriver{c: s.own}
}

func (d *goDriver) close() error {
	if d.watch != nil {
		d.watch.Close()
		for range d.updates {
		}
		d.watch = nil
	}
	return nil
}

// args reads the members of a call.
type args struct{ object }

func (a args) text(name string) string { s, _ := a.object[name].(string); return s }
func (a args) number(name string) int  { n, _ := a.object[name].(float64); return int(n) }
func (a args) truth(name string) bool  { b, _ := a.object[name].(bool); return b }

func (a args) duration(name string) time.Duration {
	return time.Duration(a.number(name)) * time.Millisecond
}

func (a args) texts(name string) (list []string) {
	values, _ := a.object[name].([]any)
	for _, v := range values {
		list = append(list, v.(string))
	}
	return list
}

func (a args) labels() map[string]string {
	out := map[string]string{}
	values, _ := a.object["labels"].(object)
	for k, v := range values {
		out[k] = v.(string)
	}
	return out
}

// check is the readiness check of a call; an empty path is one.
func (a args) check() *openshellv1.HttpReadinessCheck {
	path, there := a.object["readiness_path"].(string)
	if !there {
		return nil
	}
	return &openshellv1.HttpReadinessCheck{Path: path}
}

func sandboxScope(workspace string) *datamodelv1.WorkspaceSelector {
	return sandbox.Workspace(workspace)
}

func (d *goDriver) do(ctx context.Context, call object) object {
	a := args{call}
	out, err := d.call(ctx, a)
	if err != nil {
		return normal(object{"error": goError(err)})
	}
	return normal(object{"ok": out})
}

func (d *goDriver) call(ctx context.Context, a args) (any, error) {
	scope, name, service := sandboxScope(a.text("workspace")), a.text("sandbox"), a.text("service")
	switch op := a.text("op"); op {
	case "health":
		r, err := d.c.Health(ctx)
		return object{"status": strings.TrimPrefix(r.GetStatus().String(), "SERVICE_STATUS_")}, err
	case "create_sandbox":
		req := &openshellv1.CreateSandboxRequest{Name: name, WorkspaceScope: scope, Labels: a.labels(), RequestId: a.text("request_id")}
		exposures, _ := a.object["exposures"].([]any)
		for _, e := range exposures {
			e := args{e.(object)}
			req.ServiceExposures = append(req.ServiceExposures, &openshellv1.SandboxServiceExposure{
				Service: e.text("service"), TargetPort: uint32(e.number("port")), ReadinessCheck: e.check(),
			})
		}
		r, err := d.c.CreateSandbox(ctx, req)
		return sandboxView(r), err
	case "get_sandbox":
		r, err := d.c.GetSandbox(ctx, &openshellv1.GetSandboxRequest{Name: name, WorkspaceScope: scope})
		return sandboxView(r), err
	case "stop_sandbox":
		r, err := d.c.StopSandbox(ctx, &openshellv1.StopSandboxRequest{Name: name, WorkspaceScope: scope})
		return sandboxView(r), err
	case "start_sandbox":
		r, err := d.c.StartSandbox(ctx, &openshellv1.StartSandboxRequest{Name: name, WorkspaceScope: scope})
		return sandboxView(r), err
	case "delete_sandbox":
		r, err := d.c.DeleteSandbox(ctx, &openshellv1.DeleteSandboxRequest{Name: name, WorkspaceScope: scope, AllowMissing: a.truth("allow_missing")})
		return object{"outcome": outcomeWord(r.GetOutcome())}, err
	case "list_sandboxes":
		names := []string{}
		for s, err := range d.c.Sandboxes(ctx, &openshellv1.ListSandboxesRequest{LabelSelector: a.text("selector"), WorkspaceScope: scope}) {
			if err != nil {
				return nil, err
			}
			names = append(names, s.GetMetadata().GetName())
		}
		slices.Sort(names)
		return object{"sandboxes": names}, nil
	case "expose":
		r, err := d.c.ExposeService(ctx, &openshellv1.ExposeServiceRequest{
			Sandbox: name, Name: service, TargetPort: uint32(a.number("port")), ReadinessCheck: a.check(), WorkspaceScope: scope, RequestId: a.text("request_id"),
		})
		return serviceView(r), err
	case "get":
		r, err := d.c.GetService(ctx, &openshellv1.GetServiceRequest{Sandbox: name, Name: service, WorkspaceScope: scope})
		return serviceView(r), err
	case "delete":
		r, err := d.c.DeleteService(ctx, &openshellv1.DeleteServiceRequest{Sandbox: name, Name: service, WorkspaceScope: scope, AllowMissing: a.truth("allow_missing")})
		return object{"outcome": outcomeWord(r.GetOutcome())}, err
	case "list":
		return d.list(ctx, &openshellv1.ListServicesRequest{Sandbox: name, PageSize: int32(a.number("page_size")), WorkspaceScope: scope})
	case "wait":
		return d.wait(ctx, a)
	case "watch_open", "watch_until", "watch_idle", "watch_close":
		return d.watching(ctx, op, a)
	default:
		return nil, fmt.Errorf("no op %q", op)
	}
}

func (d *goDriver) list(ctx context.Context, req *openshellv1.ListServicesRequest) (any, error) {
	count, names := 0, map[string]bool{}
	for s, err := range d.c.Services(ctx, req) {
		if err != nil {
			return nil, err
		}
		count++
		names[s.GetEndpoint().GetName()] = true
	}
	return object{"count": count, "distinct": len(names)}, nil
}

func stateOf(word string) openshellv1.ServiceHealthState {
	return openshellv1.ServiceHealthState(openshellv1.ServiceHealthState_value["SERVICE_HEALTH_STATE_"+strings.ToUpper(word)])
}

func (d *goDriver) wait(ctx context.Context, a args) (any, error) {
	req := &sandboxv1.WaitServiceRequest{
		Sandbox: a.text("sandbox"), Name: a.text("service"), WorkspaceScope: sandboxScope(a.text("workspace")), Timeout: durationpb.New(a.duration("timeout_ms")),
	}
	for _, s := range a.texts("states") {
		req.States = append(req.States, stateOf(s))
	}
	r, err := d.c.WaitService(ctx, req)
	if err != nil {
		return nil, err
	}
	view := serviceView(r.GetService())
	view["elapsed_ms"] = r.GetElapsed().AsDuration().Milliseconds()
	return view, nil
}

func (d *goDriver) watching(ctx context.Context, op string, a args) (any, error) {
	switch op {
	case "watch_open":
		d.watch = d.c.WatchServices(ctx, &sandboxv1.WatchServicesRequest{Sandbox: a.text("sandbox"), WorkspaceScope: sandboxScope(a.text("workspace"))})
		d.updates = make(chan sandbox.ServiceUpdate)
		go d.read(d.watch, d.updates)
		for u := range d.updates {
			if u.Connected {
				break
			}
		}
		views := []object{}
		for _, s := range d.watch.Services() {
			views = append(views, serviceView(s.Service))
		}
		return object{"services": views}, nil
	case "watch_close":
		return object{}, d.close()
	case "watch_idle":
		over := time.After(a.duration("ms"))
		for n := 0; ; n++ {
			select {
			case _, open := <-d.updates:
				if !open {
					return nil, d.end
				}
			case <-over:
				return object{"updates": n}, nil
			}
		}
	}
	over := time.After(a.duration("limit_ms"))
	for {
		if view := sought(d.watch.Services(), a); view != nil {
			return view, nil
		}
		select {
		case _, open := <-d.updates:
			if !open {
				return nil, d.end
			}
		case <-over:
			return nil, errLimit
		}
	}
}

var errLimit = errors.New("the watch has not told it in time")

// read passes on what the watch tells, until it is closed.
func (d *goDriver) read(w *sandbox.ServiceWatch, to chan<- sandbox.ServiceUpdate) {
	defer close(to)
	for {
		u, err := w.Next()
		if err != nil {
			d.end = err
			return
		}
		to <- u
	}
}

// sought is what a watch_until waits for, or nil.
func sought(list []sandbox.WatchedService, a args) object {
	i := slices.IndexFunc(list, func(s sandbox.WatchedService) bool { return s.Service.GetEndpoint().GetName() == a.text("service") })
	switch {
	case i < 0 && a.truth("gone"):
		return object{"gone": true}
	case i < 0 || a.truth("gone"):
		return nil
	}
	view := serviceView(list[i].Service)
	if view["state"] != a.text("state") || a.text("reason") != "" && view["reason"] != a.text("reason") {
		return nil
	}
	return view
}

func serviceView(r *openshellv1.ServiceEndpointResponse) object {
	h, e := sandbox.HealthOf(r), r.GetEndpoint()
	view := object{
		"sandbox": e.GetSandbox(), "service": e.GetName(), "port": e.GetTargetPort(), "readiness_path": nil, "url": r.GetUrl(), "answered": r.GetHealth() != nil,
		"state": h.State.String(), "ready": h.Ready, "reason": h.Reason, "http_status": h.HTTPStatus,
	}
	if e.GetReadinessCheck() != nil {
		view["readiness_path"] = e.GetReadinessCheck().GetPath()
	}
	return view
}

func sandboxView(r *openshellv1.SandboxResponse) object {
	s := r.GetSandbox()
	urls := maps.Clone(r.GetServiceUrls())
	if urls == nil {
		urls = map[string]string{}
	}
	return object{"sandbox": s.GetMetadata().GetName(), "phase": strings.TrimPrefix(s.GetStatus().GetPhase().String(), "SANDBOX_PHASE_"), "urls": urls}
}

func outcomeWord(o openshellv1.DeletionOutcome) string {
	return strings.TrimPrefix(o.String(), "DELETION_OUTCOME_")
}

func goError(err error) object {
	if errors.Is(err, errLimit) {
		return object{"kind": "Limit", "message": err.Error()}
	}
	out := object{"kind": "Driver", "message": err.Error()}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		out["kind"] = e.Code.String()
	}
	if e, ok := errors.AsType[*sandbox.WaitError](err); ok {
		f := e.Failure
		last := sandbox.HealthOf(&openshellv1.ServiceEndpointResponse{Health: f.GetLastHealth()})
		out["wait"] = object{
			"cause": strings.TrimPrefix(f.GetCause().String(), "WAIT_FAILURE_CAUSE_"), "sandbox": f.GetSandbox(), "service": f.GetName(),
			"elapsed_ms": f.GetElapsed().AsDuration().Milliseconds(), "last_state": last.State.String(), "last_reason": cmp.Or(last.Reason, ""),
		}
	}
	return out
}
