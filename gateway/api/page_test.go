// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	"github.com/sandbox-agent/sandbox-agent/gateway/store"
)

// services lists all pages of a request, with after called after each page.
func (w *world) services(r *listServicesReq, after func(page int)) (names []string, pages int) {
	w.t.Helper()
	for {
		resp := must[*openshellv1.ListServicesResponse](w, r)
		pages++
		for _, s := range resp.GetServices() {
			e := s.GetEndpoint()
			names = append(names, e.GetMetadata().GetWorkspace()+"/"+e.GetSandbox()+"/"+e.GetName())
			if s.GetHealth() == nil {
				w.t.Errorf("%s has no health", names[len(names)-1])
			}
		}
		if r.PageToken = resp.GetNextPageToken(); r.PageToken == "" {
			return names, pages
		}
		after(pages)
	}
}

// fill makes sandboxes of 210 services each, in two workspaces.
func (w *world) fill(sandboxes int) (all []string) {
	w.t.Helper()
	for i := range sandboxes {
		space, sandbox := []string{"default", "other"}[i%2], fmt.Sprintf("s%d", i)
		var list []*exposure
		for j := range 210 {
			name := fmt.Sprintf("p%03d", j)
			if j == 0 {
				name = ""
			}
			list = append(list, &exposure{Service: name, TargetPort: uint32(1000 + j)})
			all = append(all, space+"/"+sandbox+"/"+name)
		}
		must[*openshellv1.SandboxResponse](w, &createReq{Name: sandbox, WorkspaceScope: workspace(space), ServiceExposures: list})
	}
	slices.Sort(all)
	return all
}

func none(int) {}

func TestPagesLoseAndRepeatNothing(t *testing.T) {
	w := newWorld(t)
	all := w.fill(5)
	for size, pages := range map[int32]int{0: 11, 1 << 30: 2} {
		got, n := w.services(&listServicesReq{PageSize: size, WorkspaceScope: allWorkspaces()}, none)
		if !slices.Equal(got, all) || n != pages {
			t.Errorf("page size %d: %d services in %d pages, want %d in %d, in order", size, len(got), n, len(all), pages)
		}
	}
	one := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, "default/s2/") })
	if got, _ := w.services(&listServicesReq{Sandbox: "s2", PageSize: 50}, none); !slices.Equal(got, one) {
		t.Errorf("one sandbox: %d services, want %d", len(got), len(one))
	}
	space := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, "other/") })
	if got, _ := w.services(&listServicesReq{WorkspaceScope: workspace("other")}, none); !slices.Equal(got, space) {
		t.Errorf("one workspace: %d services, want %d", len(got), len(space))
	}
	// A page size that changes on the way.
	r := &listServicesReq{PageSize: 400, WorkspaceScope: allWorkspaces()}
	if got, n := w.services(r, func(page int) { r.PageSize = int32(page) * 300 }); !slices.Equal(got, all) || n != 3 {
		t.Errorf("growing pages: %d services in %d pages", len(got), n)
	}
}

// The last service of each page goes before the next page is asked for, and
// others come on both sides of it.
func TestStaleCursor(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	r := &listServicesReq{Sandbox: "s0", PageSize: 20}
	var seen []string
	got, _ := w.services(r, func(page int) {
		last := fmt.Sprintf("p%03d", page*20-1)
		seen = append(seen, last)
		must[proto.Message](w, &deleteServiceReq{Sandbox: "s0", Name: last})
		w.expose(&exposeReq{Sandbox: "s0", Name: "a" + last, TargetPort: 80}) // before the cursor
		w.expose(&exposeReq{Sandbox: "s0", Name: "q" + last, TargetPort: 80}) // after it
	})
	if len(seen) != 10 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("%d pages, out of order or repeated: %q", len(seen), got)
	}
	for j := range 210 {
		name := fmt.Sprintf("default/s0/p%03d", j)
		if j == 0 {
			name = "default/s0/"
		}
		if !slices.Contains(got, name) {
			t.Errorf("%s is lost", name)
		}
	}
	if !slices.Contains(got, "default/s0/q"+seen[0]) || slices.Contains(got, "default/s0/a"+seen[0]) {
		t.Errorf("what was inserted: %q", got)
	}
}

func TestForeignAndForgedTokens(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		must[proto.Message](w, &createReq{Name: name, Labels: map[string]string{"k": "v"}, ServiceExposures: []*exposure{{TargetPort: 80}}})
	}
	services := must[*openshellv1.ListServicesResponse](w, &listServicesReq{PageSize: 1}).GetNextPageToken()
	sandboxes := must[*openshellv1.ListSandboxesResponse](w, &listReq{PageSize: 1, LabelSelector: "k=v"}).GetNextPageToken()
	if services == "" || sandboxes == "" {
		t.Fatal("no tokens")
	}
	const (
		foreign = `page_token: belongs to another list request` + tokenRule
		forged  = `page_token: is not a page token of this gateway` + tokenRule
	)
	raw := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	query := queryID("services", "default", "")
	for _, c := range []struct {
		req     proto.Message
		message string
	}{
		{&listServicesReq{PageToken: services, Sandbox: "a"}, foreign},
		{&listServicesReq{PageToken: services, WorkspaceScope: allWorkspaces()}, foreign},
		{&listServicesReq{PageToken: services, WorkspaceScope: workspace("other")}, foreign},
		{&listServicesReq{PageToken: sandboxes}, foreign},
		{&listReq{PageToken: services}, foreign},
		{&listReq{PageToken: sandboxes}, foreign},
		{&listReq{PageToken: sandboxes, LabelSelector: "k=w"}, foreign},
		{&listReq{PageToken: sandboxes, LabelSelector: "k=v", WorkspaceScope: allWorkspaces()}, foreign},
		{&listServicesReq{PageToken: services + "="}, forged},
		{&listServicesReq{PageToken: services[1:]}, forged},
		{&listServicesReq{PageToken: " " + services}, forged},
		{&listServicesReq{PageToken: raw("{}")}, forged},
		{&listServicesReq{PageToken: raw("null")}, forged},
		{&listServicesReq{PageToken: raw(`{"q":"` + base64.StdEncoding.EncodeToString(query) + `","w":"default","s":"a","n":"","x":1}`)}, forged},
		{&listServicesReq{PageToken: encodeToken(query, store.Cursor{Workspace: "\x00"})}, forged},
		{&listServicesReq{PageToken: encodeToken(query, store.Cursor{Name: strings.Repeat("n", 2000)})}, forged},
	} {
		_, err := w.call(c.req)
		wantError(t, fmt.Sprint(c.req), err, codes.InvalidArgument, c.message)
	}
	// The order of terms is not part of a query.
	r := &listReq{PageSize: 1, LabelSelector: "k=v,k=v"}
	r.PageToken = sandboxes
	if got := must[*openshellv1.ListSandboxesResponse](w, r); len(got.GetSandboxes()) != 1 || got.GetSandboxes()[0].GetMetadata().GetName() != "b" {
		t.Errorf("the second page: %v", got)
	}
}

func TestListSandboxes(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		space, name string
		labels      map[string]string
	}{
		{"default", "a", map[string]string{"team": "x", "tier": "web"}},
		{"default", "b", map[string]string{"team": "x"}},
		{"default", "c", map[string]string{"team": "y", "note": "a=b, c"}},
		{"default", "d", nil},
		{"other", "a", map[string]string{"team": "x", "empty": ""}},
	} {
		must[proto.Message](w, &createReq{Name: c.name, Labels: c.labels, WorkspaceScope: workspace(c.space)})
	}
	for _, c := range []struct {
		req  *listReq
		want string
	}{
		{&listReq{}, "default/a default/b default/c default/d"},
		{&listReq{WorkspaceScope: workspace("")}, "default/a default/b default/c default/d"},
		{&listReq{WorkspaceScope: workspace("other")}, "other/a"},
		{&listReq{WorkspaceScope: workspace("none")}, ""},
		{&listReq{WorkspaceScope: allWorkspaces()}, "default/a default/b default/c default/d other/a"},
		{&listReq{LabelSelector: "team=x"}, "default/a default/b"},
		{&listReq{LabelSelector: "tier=web,team=x"}, "default/a"},
		{&listReq{LabelSelector: "team=y,tier=web"}, ""},
		{&listReq{LabelSelector: "note=a=b"}, ""},
		{&listReq{LabelSelector: "empty=", WorkspaceScope: allWorkspaces()}, "other/a"},
		{&listReq{LabelSelector: "team=x", WorkspaceScope: allWorkspaces()}, "default/a default/b other/a"},
	} {
		for _, size := range []int32{0, 1, 2} {
			r := proto.CloneOf(c.req)
			r.PageSize = size
			var names []string
			for {
				resp := must[*openshellv1.ListSandboxesResponse](w, r)
				for _, s := range resp.GetSandboxes() {
					names = append(names, s.GetMetadata().GetWorkspace()+"/"+s.GetMetadata().GetName())
				}
				if r.PageToken = resp.GetNextPageToken(); r.PageToken == "" {
					break
				}
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%v: %q, want %q", r, got, c.want)
			}
		}
	}
}
