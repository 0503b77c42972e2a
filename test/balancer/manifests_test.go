// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

func configuration(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(kit.Root(), "packaging", "loadbalancer", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// found returns what the groups of a pattern match, once in the text.
func found(t *testing.T, text, pattern string) []string {
	t.Helper()
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(all) != 1 {
		t.Fatalf("%s is found %d times", pattern, len(all))
	}
	return all[0][1:]
}

// There is no cluster here, but what its pods would run does run: the script
// fills a volume as Kubernetes makes it, and the gateway takes it over.
func TestKubernetes(t *testing.T) {
	manifest := configuration(t, "kubernetes.yaml")
	dir := t.TempDir()
	bed, err := kit.New(filepath.Join(dir, "bed"), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	first, err := bed.Gateway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.Stop()
	credentials, state := filepath.Join(dir, "credentials"), filepath.Join(dir, "volume")
	for _, d := range []string{credentials, state} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := []string{"ca.crt", "ca.key", "admin.token", "sandbox-tokens.key"}
	for _, name := range secret {
		b, err := os.ReadFile(filepath.Join(bed.State, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(credentials, name), b, 0o400)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(state, 0o777|os.ModeSetgid); err != nil { // an emptyDir
		t.Fatal(err)
	}

	var command []string
	if err := json.Unmarshal([]byte(found(t, manifest, `command: (\[.*\])`)[0]), &command); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/credentials", credentials, "/state", state).Replace
	for i := range command {
		command[i] = here(command[i])
	}
	for range 2 { // a pod may start its containers again
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	for _, image := range regexp.MustCompile(`image: (\S+)\n\s+command:`).FindAllStringSubmatch(manifest, -1) {
		if strings.HasPrefix(image[1], "sandbox-") {
			t.Errorf("a script runs in %s, which has no shell", image[1])
		}
	}

	block := found(t, manifest, `args:\n((?:\s+- serve\n)(?:\s+- --\S+\n)+)`)[0]
	var args []string
	for _, arg := range strings.Fields(block) {
		if arg == "-" {
			continue
		}
		args = append(args, regexp.MustCompile(`(-listen=):\d+`).ReplaceAllString(here(arg), "${1}127.0.0.1:0"))
	}
	bed.State = here(found(t, block, `--state-dir=(\S+)`)[0])
	p, err := bed.Start("sandbox-gateway", append(args, "--drain-grace=0s")...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{found(t, manifest, `readinessProbe: \{ httpGet: \{ path: (\S+), port: http \}`)[0], found(t, manifest, `livenessProbe: \{ httpGet: \{ path: (\S+), port: http \}`)[0]} {
		err := kit.Until(t.Context(), 10*time.Second, path, func() (bool, string) {
			c, err := bed.Client()
			if err != nil || p.Exited() {
				return p.Exited(), "it does not serve"
			}
			resp, err := client.Get(c.HTTP + path)
			if err != nil {
				return false, err.Error()
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK, resp.Status
		})
		if err != nil || p.Exited() {
			t.Fatalf("%s: %v", path, err)
		}
	}
	for _, name := range secret {
		given, err1 := os.ReadFile(filepath.Join(credentials, name))
		used, err2 := os.ReadFile(filepath.Join(bed.State, name))
		if err1 != nil || err2 != nil || !slices.Equal(given, used) {
			t.Errorf("%s is not the Secret's: %v, %v", name, err1, err2)
		}
	}
	if code, err := p.Stop(); code != 0 || err != nil {
		t.Errorf("it stops with %d, %v", code, err)
	}
	if n, err := strconv.Atoi(found(t, manifest, `terminationGracePeriodSeconds: (\d+)`)[0]); err != nil || n != 70 {
		t.Errorf("the pod has %d s to end, want 70 (%v)", n, err)
	}
}

// Envoy's parser knows anchors, but takes a merge key for a field of its own.
func TestEnvoyHasNoMergeKeys(t *testing.T) {
	if strings.Contains(configuration(t, "envoy.yaml"), "<<:") {
		t.Error("envoy.yaml has a merge key")
	}
}
