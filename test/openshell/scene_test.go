// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package openshell

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

var update = flag.Bool("update", false, "write docs/openshell.md anew")

func TestMain(m *testing.M) { testkit.Main(m) }

// suite is the directory of this package.
func suite(name string) string { return filepath.Join(kit.Root(), "test", "openshell", name) }

var pinned = regexp.MustCompile(`(?m)^openshell==(\S+)$`)

// version is the version of the package that requirements.txt pins.
func version(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(suite("requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	m := pinned.FindSubmatch(b)
	if m == nil {
		t.Fatal("requirements.txt does not pin openshell")
	}
	return string(m[1])
}

// interpreter returns the Python of an environment with the package in it. The
// environment lies below .tools, and is made where it is missing or holds
// other requirements.
func interpreter(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(kit.Root(), ".tools", "openshell-"+version(t))
	python := filepath.Join(dir, "bin", "python")
	wanted, err := os.ReadFile(suite("requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "requirements.txt") // written last
	if got, err := os.ReadFile(made); err == nil && bytes.Equal(got, wanted) {
		return python
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:", "-r", suite("requirements.txt")},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if err := os.WriteFile(made, wanted, 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

// gateway starts a gateway whose sandboxes are local. It ends with the test,
// its sandboxes before it.
func gateway(t *testing.T) *kit.Bed {
	t.Helper()
	// Not t.TempDir: sandboxes of another user must get at what is in it.
	dir, err := os.MkdirTemp("", "openshell-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.Close()
		b, err := os.ReadFile(log.Name())
		if err != nil || bytes.Contains(b, []byte("level=ERROR")) {
			t.Errorf("the gateway logged an error, or nothing (%v)", err)
		}
		if t.Failed() {
			t.Logf("%s", b)
		}
	})
	bed, err := kit.New(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	p, err := bed.Gateway(t.Context(), "--driver", "local")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for line := range strings.Lines(bed.CLI(ctx, "sandbox", "list").Stdout) {
			if name, _, ok := strings.Cut(line, " "); ok && name != "NAME" {
				bed.CLI(ctx, "sandbox", "delete", name)
			}
		}
		if code, err := p.Stop(); code != 0 || err != nil {
			t.Errorf("the gateway ended with %d, %v", code, err)
		}
	})
	return bed
}

// metadata is the file that names a gateway. The package reads the first two
// and the last; OpenShell's own command wants all of them.
const metadata = `{"name": %q, "gateway_endpoint": %q, "is_remote": false, "gateway_port": 17670, "auth_mode": "oidc"}`

// register makes the configuration directory that the package reads, with the
// gateway as the active one, and returns what goes into XDG_CONFIG_HOME. It is
// what docs/openshell.md tells a user to do.
func register(t *testing.T, bed *kit.Bed, name string) string {
	t.Helper()
	client, err := bed.Client()
	if err != nil {
		t.Fatal(err)
	}
	read := func(file string) string {
		b, err := os.ReadFile(filepath.Join(bed.State, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	home := t.TempDir()
	write := func(file, content string) {
		file = filepath.Join(home, "openshell", file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("active_gateway", name+"\n")
	write("gateways/"+name+"/metadata.json", fmt.Sprintf(metadata, name, client.API))
	write("gateways/"+name+"/oidc_token.json", fmt.Sprintf(`{"access_token": %q, "issuer": "", "client_id": ""}`, strings.TrimSpace(read("admin.token"))))
	write("gateways/"+name+"/mtls/ca.crt", read("ca.crt"))
	return home
}

// step is what client.py says of one thing that it tried.
type step struct {
	Area, Name, Code, Text string
}

// run runs client.py, which must come to its end within two minutes.
func run(t *testing.T, python, home string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{suite("client.py")}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+home, "OPENSHELL_GATEWAY=", "GRPC_VERBOSITY=NONE", "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client.py %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out
}

// steps drives a gateway through everything.
func steps(t *testing.T, python string) (all []step) {
	t.Helper()
	bed := gateway(t)
	client, err := bed.Client()
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, python, register(t, bed, "here"), "run", "here", strings.TrimPrefix(client.HTTP, "http://"))
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var s step
		if err := d.Decode(&s); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatalf("client.py: %v\n%s", err, out)
		}
		all = append(all, s)
	}
}
