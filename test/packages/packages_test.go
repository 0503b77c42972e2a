// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package packages

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	commands = []string{"sandbox-agent", "sandbox-gateway", "sandboxctl"}
	// formats are the packages with the names that they have for architectures.
	formats = map[string][]string{"deb": {"amd64", "arm64"}, "rpm": {"x86_64", "aarch64"}, "apk": {"x86_64", "aarch64"}}
)

// built returns the directory of the packages.
func built(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PACKAGES_DIR")
	if dir == "" {
		t.Skip("no packages: run make test-packages")
	}
	return dir
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// maxAgent is the largest size of the agent, which is in every sandbox.
const maxAgent = 16 << 20

func TestBinaries(t *testing.T) {
	dir := built(t)
	for _, arch := range []string{"amd64", "arm64"} {
		for _, command := range commands {
			path := filepath.Join(dir, "bin", command+"-linux-"+arch)
			f, err := elf.Open(path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			defer f.Close()
			if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
				t.Errorf("%s is for %v", path, f.Machine)
			}
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("%s is not static: it has a %v", path, p.Type)
				}
			}
			if f.Section(".symtab") != nil || f.Section(".debug_info") != nil {
				t.Errorf("%s is not stripped", path)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s %s: %.1f MiB", command, arch, float64(info.Size())/(1<<20))
			if command == "sandbox-agent" && info.Size() > maxAgent {
				t.Errorf("%s has %d bytes, at most %d are allowed", path, info.Size(), maxAgent)
			}
		}
	}
}

// files lists the paths in a package, without a leading slash or dot.
func files(t *testing.T, path string) []string {
	t.Helper()
	var out string
	switch filepath.Ext(path) {
	case ".deb":
		tar, err := exec.Command("dpkg-deb", "--fsys-tarfile", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		list := exec.Command("tar", "--list")
		list.Stdin = bytes.NewReader(tar)
		b, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		out = string(b)
	case ".rpm":
		out = run(t, "rpm", "--query", "--list", "--package", path)
	case ".apk": // three archives, one after the other
		out = run(t, "tar", "--list", "--gzip", "--ignore-zeros", "--warning=no-unknown-keyword", "--file", path)
	}
	var list []string
	for line := range strings.Lines(out) {
		list = append(list, strings.TrimLeft(strings.TrimSpace(line), "./"))
	}
	return list
}

func TestContents(t *testing.T) {
	dir := built(t)
	for format, arches := range formats {
		for _, command := range commands {
			for _, arch := range arches {
				found, err := filepath.Glob(filepath.Join(dir, command+"[_\\-][0-9]*[._]"+arch+"."+format))
				if err != nil || len(found) != 1 {
					t.Errorf("packages of %s for %s as .%s: %q, %v", command, arch, format, found, err)
					continue
				}
				has := make(map[string]bool)
				for _, f := range files(t, found[0]) {
					has[f] = true
				}
				for _, want := range contents(format, command) {
					if !has[want] {
						t.Errorf("%s lacks %s", filepath.Base(found[0]), want)
					}
				}
			}
		}
	}
}

// contents is what a package must have.
func contents(format, command string) []string {
	list := []string{
		"usr/bin/" + command,
		"usr/share/man/man1/" + command + ".1.gz",
		"usr/share/bash-completion/completions/" + command,
		"usr/share/fish/vendor_completions.d/" + command + ".fish",
		"usr/share/doc/" + command + "/copyright",
		"usr/share/doc/" + command + "/third-party.gz",
	}
	zsh := "site-functions"
	if format == "deb" {
		zsh = "vendor-completions"
	}
	list = append(list, fmt.Sprintf("usr/share/zsh/%s/_%s", zsh, command))
	if command == "sandboxctl" {
		return list
	}
	list = append(list, "etc/"+command+"/config.yaml")
	if format != "apk" {
		list = append(list, "usr/lib/systemd/system/"+command+".service", "usr/lib/sysusers.d/"+command+".conf", "usr/lib/tmpfiles.d/"+command+".conf")
	}
	return list
}

func TestLintian(t *testing.T) {
	debs, err := filepath.Glob(filepath.Join(built(t), "*_amd64.deb"))
	if err != nil || len(debs) != len(commands) {
		t.Fatalf("packages: %q, %v", debs, err)
	}
	if out := run(t, "lintian", append([]string{"--no-cfg", "--allow-root", "--fail-on", "error,warning"}, debs...)...); out != "" {
		t.Errorf("lintian says\n%s", out)
	}
}

// The manual pages are without a complaint of the formatter.
func TestManualPages(t *testing.T) {
	debs, err := filepath.Glob(filepath.Join(built(t), "*_amd64.deb"))
	if err != nil || len(debs) != len(commands) {
		t.Fatalf("packages: %q, %v", debs, err)
	}
	for _, deb := range debs {
		command, _, _ := strings.Cut(filepath.Base(deb), "_")
		page := exec.Command("sh", "-ec", `dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout "./usr/share/man/man1/$2.1.gz" | gzip -d | groff -man -Tutf8 -ww 2>&1 >/dev/null`, "sh", deb, command)
		if out, err := page.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("the page of %s: %v\n%s", command, err, out)
		}
	}
}

// A second build, from another directory, gives the same bytes.
func TestReproducible(t *testing.T) {
	first := built(t)
	second := os.Getenv("PACKAGES_AGAIN")
	if second == "" {
		t.Skip("no second build: run make test-packages")
	}
	sums := func(dir string) string {
		b, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	a, b := sums(first), sums(second)
	if strings.Count(a, "\n") != 24 {
		t.Errorf("the build has %d files, want 24:\n%s", strings.Count(a, "\n"), a)
	}
	if a != b {
		t.Errorf("the first build:\n%s\nthe second:\n%s", a, b)
	}
}
