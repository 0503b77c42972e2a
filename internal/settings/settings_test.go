// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.Duration("drain-grace", 25*time.Second, "")
	fs.String("state-dir", "/default", "")
	fs.StringSlice("tls-names", nil, "")
	fs.String("config", "", "")
	return fs
}

func write(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	fs := flags()
	if err := fs.Parse([]string{"--state-dir", "/flag"}); err != nil {
		t.Fatal(err)
	}
	path := write(t, "state-dir: /file\ndrain-grace: 1s\ntls-names: [a.example, b.example]\n")
	environ := []string{"TEST_STATE_DIR=/env", "TEST_DRAIN_GRACE=2s", "TEST_OTHER=x", "PATH=/bin", "TEST_CONFIG=/other"}
	if err := Fill(fs, path, "TEST_", environ, "config"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"state-dir": "/flag", "drain-grace": "2s", "tls-names": "[a.example,b.example]", "config": "",
	} {
		if got := fs.Lookup(name).Value.String(); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// A list comes from one source alone.
func TestPrecedenceOfLists(t *testing.T) {
	path := write(t, "tls-names: [file.example]\n")
	environ := []string{"TEST_TLS_NAMES=env.example,env2.example"}
	for want, c := range map[string]struct {
		args, environ []string
		path          string
	}{
		"[]":                            {},
		"[file.example]":                {path: path},
		"[env.example,env2.example]":    {path: path, environ: environ},
		"[flag.example,flag2.example]":  {[]string{"--tls-names=flag.example", "--tls-names=flag2.example"}, environ, path},
		"[flag.example,flag2.example,]": {args: []string{"--tls-names=flag.example,flag2.example,"}, path: path},
	} {
		fs := flags()
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if err := Fill(fs, c.path, "TEST_", c.environ, "config"); err != nil {
			t.Fatal(err)
		}
		if got := fs.Lookup("tls-names").Value.String(); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
}

func TestBadSources(t *testing.T) {
	for content, want := range map[string]string{
		"drain_grace: 1s\n":              "drain_grace: no such setting",
		"config: /other\n":               "config: no such setting",
		"drain-grace: soon\n":            "drain-grace: ",
		"state-dir:\n  a: b\n":           "no such setting",
		"state-dir: [[1]]\n":             "state-dir: entry 0 is not a plain text",
		"state-dir: [\"a,b\"]\n":         "state-dir: entry 0 is not a plain text",
		"state-dir: null\n":              "state-dir: is neither",
		"state-dir: /a\nstate-dir: /b\n": "config: ",
		": : :\n":                        "config: ",
	} {
		err := Fill(flags(), write(t, content), "TEST_", nil, "config")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", content, err, want)
		}
	}
	if err := Fill(flags(), filepath.Join(t.TempDir(), "missing"), "TEST_", nil); err == nil {
		t.Error("a missing file was accepted")
	}
	if err := Fill(flags(), "", "TEST_", []string{"TEST_DRAIN_GRACE=soon"}); err == nil || !strings.Contains(err.Error(), "environment: drain-grace") {
		t.Errorf("a bad variable: %v", err)
	}
}

func TestCopyAndDifferences(t *testing.T) {
	flags := func() (*pflag.FlagSet, *[]string) {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.String("level", "info", "")
		fs.Duration("grace", time.Second, "")
		return fs, fs.StringSlice("service", nil, "")
	}
	a, _ := flags()
	a.Bool("only-here", false, "")
	if err := a.Parse([]string{"--service", "x=1,y=2", "--service=z=3", "--grace", "2s", "--only-here"}); err != nil {
		t.Fatal(err)
	}
	if err := Fill(a, "", "P_", []string{"P_LEVEL=debug"}); err != nil {
		t.Fatal(err)
	}
	b, services := flags()
	if err := Copy(b, a); err != nil {
		t.Fatal(err)
	}
	if want := []string{"x=1", "y=2", "z=3"}; !slices.Equal(*services, want) {
		t.Errorf("services %q, want %q", *services, want)
	}
	// What came from the environment is not of the command line.
	if got := Differences(a, b); !slices.Equal(got, []string{"level"}) {
		t.Errorf("differences %q, want level alone", got)
	}
	if err := Fill(b, "", "P_", []string{"P_LEVEL=debug", "P_GRACE=9s"}); err != nil {
		t.Fatal(err)
	}
	if got := Differences(a, b); got != nil {
		t.Errorf("differences %q, want none: the command line wins again", got)
	}
}
