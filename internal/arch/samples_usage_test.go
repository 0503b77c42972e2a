// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package arch

// body gives a Go file that imports a path and runs statements.
func body(importSpec, statements string) string {
	return "package a\nimport " + importSpec + "\nfunc f() {\n" + statements + "\n}\n"
}

const testkitSpec = `"` + module + `/internal/testkit"`

var usageSpecimens = []specimen{
	{"bans", "sleep", []string{"a/a.go", body(`"time"`, "time.Sleep(1)")}, "a/a.go:4: time.Sleep: a sleep guesses"},
	{"bans", "sleep in a test", []string{"a/a_test.go", body(`"time"`, "time.Sleep(1)")}, "time.Sleep"},
	{"bans", "sleep as a value", []string{"a/a.go", body(`"time"`, "g(time.Sleep)")}, "time.Sleep"},
	{"bans", "sleep renamed", []string{"a/a.go", body(`clock "time"`, "clock.Sleep(1)")}, "clock.Sleep"},
	{"bans", "dot import", []string{"a/a.go", body(`. "time"`, "Sleep(1)")}, "into its own names"},
	{"bans", "sleep in a suite", []string{"test/e2e/a_test.go", body(`"time"`, "time.Sleep(1)")}, "time.Sleep"},
	{"bans", "poller outside the suites", []string{"a/poll.go", body(`"time"`, "time.Sleep(1)")}, "time.Sleep"},
	{"bans", "synctest", []string{"a/a_test.go", body(`"testing/synctest"`, "synctest.Test(nil, nil)")}, "use testkit.Bubble"},
	{"bans", "default mux", []string{"a/a.go", body(`"net/http"`, "http.HandleFunc(`/`, nil)")}, "http.HandleFunc: the default mux"},
	{"bans", "default mux as a value", []string{"a/a.go", body(`"net/http"`, "g(http.DefaultServeMux)")}, "http.DefaultServeMux"},
	{"bans", "default client", []string{"a/a.go", body(`"net/http"`, "http.Get(`x`)")}, "http.Get: the default client"},
	{"bans", "pprof", []string{"a/a.go", "package a\nimport _ \"net/http/pprof\"\n"}, "mount its handlers"},
	{"bans", "registry", []string{"a/a.go", body(`"github.com/prometheus/client_golang/prometheus"`, "prometheus.MustRegister()")}, "the registry is an argument"},
	{"bans", "promauto", []string{"a/a.go", "package a\nimport \"github.com/prometheus/client_golang/prometheus/promauto\"\n"}, "the registry is an argument"},
	{"bans", "promhttp", []string{"a/a.go", body(`"github.com/prometheus/client_golang/prometheus/promhttp"`, "promhttp.Handler()")}, "the registry is an argument"},
	{"bans", "log", []string{"a/a.go", "package a\nimport \"log\"\n"}, "take a *slog.Logger"},
	{"bans", "default logger", []string{"a/a.go", body(`"log/slog"`, "slog.Info(`x`)")}, "slog.Info: the default logger"},
	{"bans", "exit", []string{"a/main.go", body(`"os"`, "os.Exit(1)")}, "only main ends the process"},
	{"bans", "exit beside main", []string{"cmd/a/run.go", "package main\nimport \"os\"\nfunc f() { os.Exit(1) }\n"}, "only main ends the process"},
	{"bans", "exit in a test", []string{"a/a_test.go", body(`"os"`, "os.Exit(1)")}, "only main ends the process"},
	{"bans", "print", []string{"a/a.go", body(`"fmt"`, "fmt.Println(1)")}, "standard output belongs to the commands"},
	{"bans", "background", []string{"a/a.go", body(`"context"`, "g(context.Background())")}, "take the caller's context"},
	{"bans", "no context yet", []string{"a/a.go", body(`"context"`, "g(context."+todo+"())")}, "take the caller's context"},
	{"bans", "process", []string{"agent/a.go", "package agent\nimport \"os/exec\"\n"}, "may be process 1"},
	{"bans", "chance", []string{"a/a.go", "package a\nimport \"math/rand\"\n"}, "math/rand/v2"},
	{"bans", "good", []string{
		"a/a.go", body(`"time"`, "var time struct{ Sleep func(int) }\ntime.Sleep(1)"),
		"a/b.go", body(`"net/http"`, "http.NewServeMux()"),
		"a/c.go", body(`"fmt"`, "fmt.Fprintln(nil)"),
		"a/d.go", body(`"log/slog"`, "slog.New(nil).Info(`x`)"),
		"a/e.go", body(`"math/rand/v2"`, "rand.N(3)"),
		"a/a_test.go", body(`"context"`, "context.Background()"),
		"a/print_test.go", body(`"fmt"`, "fmt.Println(1)"),
		"examples/a/main.go", "package main\nimport (\n\"fmt\"\n\"os\"\n)\nfunc main() { fmt.Println(1); os.Exit(1) }\n",
		"cmd/a/main.go", "package main\nimport \"os\"\nfunc main() { os.Exit(1) }\n",
		"a/main_test.go", "package a\nimport \"os\"\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n",
		"test/e2e/poll.go", body(`"time"`, "time.Sleep(1)"),
		"agent/command/a.go", "package command\nimport \"os/exec\"\n",
	}, ""},

	{"waits", "alone", []string{"a/a.go", body(`"time"`, "<-time.After(1)")}, "a/a.go:4: a sleep in disguise"},
	{"waits", "good", []string{
		"a/a.go", body(`"time"`, "select { case <-time.After(1): case <-done: }"),
		"a/a_test.go", body(`"time"`, "<-time.After(1)"),
		"a/b.go", body(`"time"`, "<-other.After(1)\n_ = time.Second"),
	}, ""},

	{"logs", "format", []string{"a/a.go", body(`"fmt"`, "log.Info(fmt.Sprintf(`%d`, 1))")}, "the message is built at run time"},
	{"logs", "sum", []string{"a/a.go", body(`"fmt"`, "s.log.WarnContext(ctx, `x` + name())")}, "the message is built at run time"},
	{"logs", "error text", []string{"a/a.go", body(`"fmt"`, "c.Logger.Error(err.Error())")}, "the message is built at run time"},
	{"logs", "good", []string{"a/a.go", body(`"fmt"`, "log.Info(`x` + suffix, `n`, 1)\nhttp.Error(w, text(), 500)\nt.Error(text())\ns.log.Log(ctx, level(), msg)")}, ""},

	{"errors", "contains", []string{"a/a.go", body(`"strings"`, "strings.Contains(err.Error(), `x`)")}, "decides by the text of an error"},
	{"errors", "equal", []string{"a/a.go", body(`"strings"`, "g(err.Error() == `x`)")}, "decides by the text of an error"},
	{"errors", "good", []string{
		"a/a.go", body(`"strings"`, "strings.Contains(text, `x`)\ng(err.Error())"),
		"a/a_test.go", body(`"strings"`, "strings.Contains(err.Error(), `x`)"),
	}, ""},

	{"tests", "no leak check", []string{"a/a_test.go", body(`"testing"`, "")}, "a/main_test.go:1: no leak check"},
	{"tests", "TestMain without it", []string{"a/a_test.go", "package a\nimport " + testkitSpec + "\nfunc TestMain(m *testing.M) { m.Run() }\n"}, "no leak check"},
	{"tests", "skip", []string{"test/a/a_test.go", body(`"testing"`, "t.Skip()")}, "Skip gives no reason"},
	{"tests", "skip now", []string{"test/a/a_test.go", body(`"testing"`, "t.SkipNow()")}, "SkipNow gives no reason"},
	{"tests", "parallel bubble", []string{"test/a/a_test.go", body(testkitSpec, "t.Parallel()\ntestkit.Bubble(t, nil)")}, "must not open a bubble"},
	{"tests", "good", []string{
		"a/a.go", body(`"time"`, "w.Skip()"),
		"a/a_test.go", body(testkitSpec, "testkit.Bubble(t, nil)"),
		"a/b_test.go", body(`"testing"`, "t.Parallel()\nt.Skip(`needs a tape drive`)"),
		"a/main_test.go", "package a\nimport " + testkitSpec + "\nfunc TestMain(m *testing.M) { testkit.Main(m) }\n",
		"test/a/a_test.go", body(`"testing"`, ""),
	}, ""},
}
