// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

// lattice is the import order of the module. A line "a, b < c < d" reads: c may
// import a and b, d may import c; and since the order is transitive, d may
// import a and b too. What it does not say is forbidden.
//
//   - x/... is every package below x, without x itself; * is every package.
//   - The left side may name outside modules (a dot in the first element).
//     Those edges are not transitive: a module is for exactly the packages
//     named, and their tests. With <t it is for the tests only.
//   - Without an edge: any test may import internal/testkit; a package x/…test
//     is for the tests of x and of whoever may import x, and may import x
//     itself; the suites under test/ may share helpers.
const lattice = `
# The ground floor knows no wire, no log, no metric.
internal/backoff, internal/latest, internal/secret, internal/buildinfo < probe
internal/backoff, internal/latest, internal/secret < mux

# What was seen, and how to say it.
probe < report
api/openshell/datamodel/v1 < api/openshell/v1 < api/sandbox/v1
report, api/... < report/wire
probe < readiness

# Plumbing that every daemon shares.
internal/backoff, internal/latest, internal/secret, internal/buildinfo < internal/obs, internal/sdnotify

# The two ends. They meet on the wire, never in an import.
probe, report, report/wire, mux, readiness, api/..., internal/obs, internal/sdnotify < agent
probe, report, report/wire, mux, readiness, api/..., internal/obs, internal/sdnotify < gateway/... < gateway
internal/backoff, internal/latest, internal/secret, internal/buildinfo < agent/... < agent
gateway/health, gateway/identity < gateway/session
gateway/health, gateway/runtime, gateway/store < gateway/lifecycle < gateway/api < gateway/watch
gateway/api, gateway/route < gateway/forward

# The commands, the SDK, its examples, the suites.
internal/secret < internal/settings < cmd/sandbox-agent, cmd/sandbox-gateway
internal/manpage, internal/written < cmd/...
internal/statedir < gateway, sdk/go, cmd/sandbox-gateway
agent < cmd/sandbox-agent
gateway < cmd/sandbox-gateway
api/... < sdk/go < sdk/go/... < cmd/sandboxctl
api/..., sdk/go < examples/...
internal/secret, internal/buildinfo < cmd/sandboxctl
* < test/...

# Outside modules: for exactly these packages.
github.com/hashicorp/yamux <t mux
github.com/prometheus/client_golang < internal/obs, agent, gateway, gateway/session
github.com/golang-jwt/jwt < gateway/identity
modernc.org/sqlite, github.com/jackc/pgx, github.com/pressly/goose < gateway/store
github.com/spf13/cobra < cmd/..., internal/manpage
github.com/spf13/pflag < cmd/..., internal/settings, internal/manpage
github.com/knadh/koanf < internal/settings
github.com/coreos/go-systemd < cmd/sandbox-gateway
go.yaml.in/yaml/v3, sigs.k8s.io/yaml, golang.org/x/term < cmd/sandboxctl
google.golang.org/grpc < api/..., readiness, agent, gateway/api, gateway/session, gateway/watch, gateway/forward, gateway, sdk/go, sdk/go/..., cmd/sandboxctl, test/...
google.golang.org/protobuf < api/..., report/wire, agent, gateway/..., gateway, sdk/go, sdk/go/..., cmd/sandboxctl, examples/..., test/...
github.com/google/uuid < agent, gateway/..., gateway, sdk/go, cmd/sandboxctl, test/...
golang.org/x/net < mux, gateway/route
golang.org/x/sync, golang.org/x/sys < *
go.uber.org/goleak < internal/testkit
`

// because says why an import is forbidden; the first line that fits is shown.
// A name here covers a package or module and all below it; * is everything.
var because = []struct{ from, to, reason string }{
	{"*", "internal/testkit", "it drags the testing package and the leak check into a binary; only _test.go files may import it"},
	{"*", "cmd", "a command is the end of the line: move what is shared into a package below it"},
	{"*", "test", "suites look at the product from outside; the product does not know them"},
	{"*", "internal/settings", "configuration is read for cmd/ and reaches a package as its Config"},
	{"probe", "api", "the ground floor knows no wire"},
	{"mux", "api", "the ground floor knows no wire: a session carries bytes and does not read them"},
	{"probe", "mux", "a probe looks at the loopback and needs no session"},
	{"mux", "probe", "a session carries bytes and does not care about health"},
	{"probe", "internal", "the ground floor logs and counts nothing; its caller does"},
	{"mux", "internal", "the ground floor logs through the slog.Logger that it is given and counts nothing"},
	{"report", "api", "the snapshot is independent of its encoding; report/wire translates"},
	{"agent", "gateway", "agent and gateway meet on the wire alone, so that either can be replaced"},
	{"gateway", "agent", "agent and gateway meet on the wire alone, so that either can be replaced"},
	{"gateway", "gateway", "parts of the gateway do not know each other: the consumer declares the interface it needs, gateway wires them"},
	{"sdk", "*", "an SDK is thin: generated stubs and what every client can see"},
	{"cmd/sandboxctl", "*", "the CLI sees what any client sees: the API, through the SDK"},
	{"examples", "*", "an example is what a user can write: the SDK, and the API's messages"},
	{"*", "examples", "an example is to be read and copied; nothing is built on it"},
	{"api", "*", "the protos depend on nothing of ours"},
	{"*", "github.com/hashicorp/yamux", "mux speaks that protocol itself; yamux is the foreign peer in its tests"},
	{"*", "github.com/prometheus/client_golang", "metrics are read from state by a collector in internal/obs, agent or gateway; packages export state"},
	{"probe", "google.golang.org/grpc", "the ground floor knows no wire"},
	{"mux", "google.golang.org/grpc", "gRPC is laid over a session by its owner, agent or gateway"},
	{"*", "github.com/golang-jwt/jwt", "one package makes and checks tokens"},
	{"*", "modernc.org/sqlite", "the store hides its engine"},
	{"*", "github.com/jackc/pgx", "the store hides its engine"},
	{"*", "github.com/pressly/goose", "migrations belong to the store"},
	{"*", "github.com/spf13", "flags are parsed in cmd/ and reach a package as its Config"},
	{"*", "github.com/knadh/koanf", "configuration is read by internal/settings for cmd/ and reaches a package as its Config"},
	{"*", "github.com/coreos/go-systemd", "the gateway's command takes over the sockets that were passed; what a daemon tells its service manager, one datagram, internal/sdnotify sends by itself"},
	{"*", "go.uber.org/goleak", "use testkit.Main, which runs the leak check"},
}
