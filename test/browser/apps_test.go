// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// Real applications, each opened by its service URL.
func TestApplications(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	vite, jupyter := free(t), free(t)
	s.files("vite", map[string]string{
		"index.html": `<!doctype html><title>vite</title><p id="out"></p><script type="module" src="/main.js"></script>`,
		"main.js":    "import { text } from './text.js';\nconst show = (t) => { document.getElementById('out').textContent = t; };\nshow(text);\nimport.meta.hot.accept('./text.js', (m) => show(m.text));\n",
		"text.js":    "export const text = 'one';\n",
	})
	s.control("edit", func(*http.Request) { s.files("vite", map[string]string{"text.js": "export const text = 'two';\n"}) })
	s.process("node", filepath.Join(kit.Root(), "test/browser/node_modules/vite/bin/vite.js"),
		filepath.Join(s.dir, "vite"), "--host", "127.0.0.1", "--port", vite, "--strictPort")
	s.files("notebooks", map[string]string{"sum.ipynb": notebook})
	s.process("jupyter-notebook", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port="+jupyter,
		"--NotebookApp.token=a-token-of-jupyter", "--notebook-dir="+filepath.Join(s.dir, "notebooks"))

	s.cli("sandbox", "create", "apps", "--expose", s.serve(newApplication(s)))
	s.cli("service", "expose", "apps", vite, "vite")
	s.cli("service", "expose", "apps", jupyter, "jupyter", "--readiness-path", "/api")
	s.agent("apps")
	for _, name := range []string{"", "vite", "jupyter"} {
		s.healthy("apps", name)
	}
	s.run("apps.test.mjs")
}

const notebook = `{"cells":[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":["print(6 * 7)"]}],
"metadata":{"kernelspec":{"display_name":"Python 3","language":"python","name":"python3"}},"nbformat":4,"nbformat_minor":4}`

func free(t *testing.T) (port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func (s *stage) files(dir string, content map[string]string) {
	s.t.Helper()
	for name, text := range content {
		path := filepath.Join(s.dir, dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

// process runs an application, and its children, until the test ends.
func (s *stage) process(name string, args ...string) {
	s.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "HOME="+s.dir)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); cmd.Wait() }()
	s.t.Cleanup(func() {
		// First politely: Jupyter ends its kernels, which are in groups of their own.
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			syscall.Kill(-cmd.Process.Pid, signal)
			select {
			case <-done:
				return
			case <-time.After(5 * time.Second):
			}
		}
		<-done
	})
}

// newApplication has an event stream, which the script makes tick, and takes
// files.
func newApplication(s *stage) http.Handler {
	ticks := make(chan struct{})
	s.control("tick", func(r *http.Request) {
		select {
		case ticks <- struct{}{}:
		case <-r.Context().Done():
		}
	})
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, `<!doctype html><title>app</title><input id="file" type="file">`)
	})
	m.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := 0; ; n++ {
			fmt.Fprintf(w, "data: tick %d\n\n", n)
			http.NewResponseController(w).Flush()
			select {
			case <-ticks:
			case <-r.Context().Done():
				return
			}
		}
	})
	m.HandleFunc("POST /upload", func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %s %v", n, hex.EncodeToString(h.Sum(nil)), err)
	})
	return m
}
