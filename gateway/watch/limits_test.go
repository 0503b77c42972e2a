// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	datamodelv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/datamodel/v1"
	sandboxv1 "github.com/sandbox-agent/sandbox-agent/api/sandbox/v1"
	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func wantEnd(t *testing.T, what string, f *fakeStream, code codes.Code, text string) {
	t.Helper()
	select {
	case err := <-f.result:
		if status.Code(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %v with %q", what, err, code, text)
		}
	default:
		t.Errorf("%s: the watch goes on", what)
	}
}

func TestLimitOfWatches(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.callers.watches.limit, w.callers.waits.limit = 2, 1
		first := w.watch(all())
		w.watch(all())
		wantEnd(t, "one too many", w.watch(all()), codes.ResourceExhausted, "this gateway serves at most 2 watches at once")
		first.leave()
		testkit.Wait()
		if f := w.watch(all()); len(f.messages) != 1 {
			t.Error("a place that became free is not given away")
		}
		w.put("web", nil)
		w.expose("web", "")
		w.wait(t.Context(), "", time.Minute)
		if r := <-w.wait(t.Context(), "", time.Minute); status.Code(r.err) != codes.ResourceExhausted || !strings.Contains(r.err.Error(), "at most 1 waits") {
			t.Error(r.err)
		}
		w.Close()
	})
}

func TestLimitOfServices(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		many := make([]string, 250)
		for i := range many {
			many[i] = fmt.Sprintf("s-%d", i)
		}
		for i := range MaxServices / len(many) {
			name := fmt.Sprintf("web-%d", i)
			w.put(name, nil)
			w.expose(name, many...)
		}
		testkit.Wait()
		f := w.watch(all())
		if held, faults := f.holds(); len(held) != MaxServices || len(faults) != 0 {
			t.Fatalf("%d services, faults %q", len(held), faults)
		}
		// In messages that any client takes, the last of which says that it is.
		for i, m := range f.messages {
			if size := proto.Size(m); size > maxBatch+maxBatch/4 || m.GetComplete() != (i == len(f.messages)-1) {
				t.Errorf("message %d of %d has %d bytes, complete %v", i, len(f.messages), size, m.GetComplete())
			}
		}
		w.put("one", nil)
		w.expose("one", "more")
		testkit.Wait()
		wantEnd(t, "it grew", f, codes.ResourceExhausted, "more than 10000 services: name a workspace, a sandbox or a label")
		wide := w.watch(all())
		wantEnd(t, "it is from the beginning", wide, codes.ResourceExhausted, "more than 10000 services")
		if len(wide.messages) != 0 {
			t.Errorf("%d messages before the refusal", len(wide.messages))
		}
		if f := w.watch(&sandboxv1.WatchServicesRequest{Services: []string{"more"}}); len(f.news()) != 1 {
			t.Error("a narrow watch of a large gateway is refused")
		}
	})
}

func TestWatchRefusals(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		everywhere := &datamodelv1.WorkspaceSelector{Selection: &datamodelv1.WorkspaceSelector_AllWorkspaces{AllWorkspaces: &datamodelv1.AllWorkspaces{}}}
		for name, tt := range map[string]struct {
			r    *sandboxv1.WatchServicesRequest
			text string
		}{
			"a long name everywhere": {
				&sandboxv1.WatchServicesRequest{Sandbox: strings.Repeat("a", 5000), WorkspaceScope: everywhere},
				"sandbox: \"" + strings.Repeat("a", 64) + "\" cannot be asked for in all workspaces",
			},
			"a sandbox everywhere": {&sandboxv1.WatchServicesRequest{Sandbox: "web", WorkspaceScope: everywhere}, "sandbox: \"web\" cannot be asked for in all workspaces"},
			"a bad name":           {&sandboxv1.WatchServicesRequest{Sandbox: "Web"}, "sandbox: \"Web\" contains"},
			"a bad service":        {&sandboxv1.WatchServicesRequest{Services: []string{"", "a--b"}}, "services[1]: \"a--b\" contains"},
			"too many names":       {&sandboxv1.WatchServicesRequest{Services: make([]string, 257)}, "services: has 257 names; at most 256"},
			"a bad selector":       {&sandboxv1.WatchServicesRequest{LabelSelector: "team"}, "label_selector: term \"team\""},
		} {
			wantEnd(t, name, w.watch(tt.r), codes.InvalidArgument, tt.text)
		}
		if f := w.watch(&sandboxv1.WatchServicesRequest{WorkspaceScope: everywhere}); len(f.messages) != 1 {
			t.Error("all workspaces are refused")
		}
	})
}

// A gateway that stops ends what is open, and whatever comes after.
func TestClose(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		w := newWorld(t).run()
		w.put("web", nil)
		w.expose("web", "")
		f := w.watch(all())
		done := w.wait(t.Context(), "", forEver)
		w.Close()
		w.Close()
		testkit.Wait()
		wantEnd(t, "open", f, codes.Unavailable, "the gateway is stopping")
		if r := <-done; status.Code(r.err) != codes.Unavailable {
			t.Error(r.err)
		}
		wantEnd(t, "new", w.watch(all()), codes.Unavailable, "the gateway is stopping")
		if r := <-w.wait(t.Context(), "", forEver); status.Code(r.err) != codes.Unavailable {
			t.Error(r.err)
		}
		if w.Watches()+w.Waits() != 0 {
			t.Errorf("%d watches and %d waits are left", w.Watches(), w.Waits())
		}
	})
}
