// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	openshellv1 "github.com/sandbox-agent/sandbox-agent/api/openshell/v1"
	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// vector is an entry of api/testdata/cases.json.
type vector struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Message string `json:"message"` // full name
	// JSON is false where protobuf JSON cannot hold the message.
	JSON bool `json:"json"`
	// UnknownFields says that the bytes have fields of a newer API. Whoever
	// keeps them encodes the same bytes; whoever drops them encodes what the
	// JSON decodes to.
	UnknownFields bool `json:"unknown_fields"`
	// Views are what an SDK reads in the answers about services: one for a
	// ServiceEndpointResponse, one for each service of a list, else none.
	Views []view `json:"views"`
}

// view is what every SDK has to make of an answer.
type view struct {
	Sandbox string `json:"sandbox"`
	Service string `json:"service"` // "" is the unnamed one
	State   string `json:"state"`   // unknown, healthy, unhealthy
	Ready   bool   `json:"ready"`   // the state is about readiness
	Words   string `json:"words"`   // what the CLI writes
	Reason  string `json:"reason"`
	Text    string `json:"message"`
	Status  int    `json:"http_status"` // 0: none
	Fails   int    `json:"failures"`
	// RFC 3339 with a Z and as few digits as needed; "": never.
	Checked string `json:"last_checked"`
	Since   string `json:"last_transition"`
	Latency int64  `json:"latency_ns"`
	Address string `json:"address"`
}

// TestVectorFiles makes the vectors of the table and compares them with those
// that are checked in.
func TestVectorFiles(t *testing.T) {
	var list []vector
	seen := map[string]bool{}
	for _, s := range samples() {
		if seen[s.name] {
			t.Fatalf("two vectors are called %s", s.name)
		}
		seen[s.name] = true
		bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.message)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		v := vector{
			Name: s.name, About: s.about, Message: string(s.message.ProtoReflect().Descriptor().FullName()),
			JSON: !s.noJSON, UnknownFields: s.newer, Views: viewsOf(s),
		}
		list = append(list, v)
		golden(t, "api/testdata/vectors/"+s.name+".hex", []byte(hex.EncodeToString(bytes)+"\n"))
		if v.JSON {
			golden(t, "api/testdata/vectors/"+s.name+".json", stableJSON(t, s.message))
		}
	}
	content, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "api/testdata/cases.json", append(content, '\n'))
	leftOver(t, seen)
}

// stableJSON is protobuf JSON without the white space that protojson varies.
func stableJSON(t *testing.T, m proto.Message) []byte {
	t.Helper()
	content, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, content, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

func leftOver(t *testing.T, known map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(kit.Root(), "api/testdata/vectors/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), filepath.Ext(f))
		if !known[name] {
			t.Errorf("%s is of no vector", f)
		}
	}
}

// viewsOf says what the table expects. It is written down there by hand; what
// the sample already says (times, texts) is read from the message itself.
func viewsOf(s sample) []view {
	views := []view{}
	for i, r := range answers(s.message) {
		h, e := r.GetHealth(), r.GetEndpoint()
		v := view{
			Sandbox: e.GetSandbox(), Service: e.GetName(), State: s.states[i], Ready: e.GetReadinessCheck() != nil,
			Reason: h.GetReason(), Text: h.GetMessage(), Status: int(h.GetHttpStatusCode()), Fails: int(h.GetConsecutiveFailures()),
			Address: h.GetAddress(),
		}
		if !s.noJSON {
			if h.GetLastCheckedTime() != nil {
				v.Checked = h.GetLastCheckedTime().AsTime().Format(time.RFC3339Nano)
			}
			if h.GetLastTransitionTime() != nil {
				v.Since = h.GetLastTransitionTime().AsTime().Format(time.RFC3339Nano)
			}
			v.Latency = h.GetLatency().AsDuration().Nanoseconds()
		}
		v.Words = words(v)
		views = append(views, v)
	}
	return views
}

func answers(m proto.Message) []*openshellv1.ServiceEndpointResponse {
	switch m := m.(type) {
	case *openshellv1.ServiceEndpointResponse:
		return []*openshellv1.ServiceEndpointResponse{m}
	case *openshellv1.ListServicesResponse:
		return m.GetServices()
	}
	return nil
}

func words(v view) string {
	switch {
	case v.State == "healthy" && v.Ready:
		return "Ready"
	case v.State == "healthy":
		return "Responsive"
	case v.State == "unhealthy" && v.Ready:
		return "Not ready"
	case v.State == "unhealthy":
		return "Unresponsive"
	case v.Reason != "":
		return "Unknown (" + v.Reason + ")"
	}
	return "Unknown"
}

// TestVectorsGo holds the Go SDK to the vectors as every other SDK is held.
func TestVectorsGo(t *testing.T) {
	var list []vector
	if err := json.Unmarshal(vectorFile(t, "cases.json"), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) < 40 {
		t.Fatalf("%d vectors: where are the others?", len(list))
	}
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) { checkVector(t, v) })
	}
}

func vectorFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(kit.Root(), "api/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func checkVector(t *testing.T, v vector) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(v.message())
	if err != nil {
		t.Fatal(err)
	}
	wire, err := hex.DecodeString(strings.TrimSpace(string(vectorFile(t, "vectors/"+v.Name+".hex"))))
	if err != nil {
		t.Fatal(err)
	}
	m := kind.New().Interface()
	if err := proto.Unmarshal(wire, m); err != nil {
		t.Fatal(err)
	}
	if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m); err != nil || !bytes.Equal(again, wire) {
		t.Errorf("encodes to\n%x, want\n%x (%v)", again, wire, err)
	}
	for i, r := range answers(m) {
		if got := viewOf(r); got != v.Views[i] {
			t.Errorf("service %d reads\n%+v, want\n%+v", i, got, v.Views[i])
		}
	}
	if !v.JSON {
		return
	}
	text := vectorFile(t, "vectors/"+v.Name+".json")
	if got := stableJSON(t, m); !bytes.Equal(got, text) {
		t.Errorf("as JSON it is\n%s, want\n%s", got, text)
	}
	fromJSON := kind.New().Interface()
	if err := protojson.Unmarshal(text, fromJSON); err != nil {
		t.Fatal(err)
	}
	if !v.UnknownFields && !proto.Equal(fromJSON, m) {
		t.Errorf("its JSON decodes to\n%v, want\n%v", fromJSON, m)
	}
}

// viewOf is the view of the Go SDK.
func viewOf(r *openshellv1.ServiceEndpointResponse) view {
	h := sandbox.HealthOf(r)
	v := view{
		Sandbox: r.GetEndpoint().GetSandbox(), Service: r.GetEndpoint().GetName(), State: h.State.String(), Ready: h.Ready,
		Reason: h.Reason, Text: h.Message, Status: h.HTTPStatus, Fails: h.Failures, Latency: h.Latency.Nanoseconds(), Address: h.Address,
	}
	if !h.LastChecked.IsZero() {
		v.Checked = h.LastChecked.UTC().Format(time.RFC3339Nano)
	}
	if !h.LastTransition.IsZero() {
		v.Since = h.LastTransition.UTC().Format(time.RFC3339Nano)
	}
	v.Words = words(v)
	return v
}

func (v vector) message() protoreflect.FullName { return protoreflect.FullName(v.Message) }
