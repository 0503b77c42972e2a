// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-agent/sandbox-agent/test/kit"
)

// nginx runs its configuration, with the addresses of this machine, and passes
// HTTP and the API on; also when one of the gateways is gone.
func TestNginx(t *testing.T) {
	if os.Getenv("TEST_DATABASE_URL") == "" {
		t.Skip("TEST_DATABASE_URL is not set: make e2e-balancer sets it")
	}
	f := newFleet(t)
	f.cli(0, "sandbox", "create", "nginx", "--expose", "8080")
	t.Cleanup(func() { f.beds[0].CLI(t.Context(), "sandbox", "delete", "nginx") })
	f.nginx()
	get, service := f.get(&http.Transport{DisableKeepAlives: true}), f.getService("nginx")
	for _, state := range []string{"both gateways", "one gateway"} {
		for range 10 {
			if err := get(t.Context()); err != nil {
				t.Errorf("%s: HTTP: %v", state, err)
			}
			if err := service(t.Context()); err != nil {
				t.Errorf("%s: API: %v", state, err)
			}
		}
		if state == "both gateways" {
			f.gateways[1].Stop()
		}
	}
}

// nginx starts nginx in the place of HAProxy.
func (f *fleet) nginx() {
	b, err := os.ReadFile(filepath.Join(kit.Root(), "packaging", "loadbalancer", "nginx.conf"))
	if err != nil {
		f.t.Fatal(err)
	}
	conf := string(b)
	for i, host := range []string{"10.0.0.1", "10.0.0.2"} {
		c, err := f.beds[i].Client()
		if err != nil {
			f.t.Fatal(err)
		}
		for port, url := range map[string]string{":17670": c.API, ":17680": c.HTTP, ":17690": c.Supervisor} {
			_, addr, _ := strings.Cut(url, "://")
			conf = strings.ReplaceAll(conf, host+port, addr)
		}
	}
	f.api, f.http = free(f.t), free(f.t)
	for port, addr := range map[string]string{"17670": f.api, "17680": f.http, "17690": free(f.t)} {
		conf = strings.ReplaceAll(conf, "listen "+port+";", "listen "+addr+";")
	}
	path := filepath.Join(f.dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command("/usr/sbin/nginx", "-c", path, "-p", f.dir, "-e", filepath.Join(f.dir, "nginx.log"),
		"-g", "daemon off; pid nginx.pid; load_module /usr/lib/nginx/modules/ngx_stream_module.so;")
	if err := cmd.Start(); err != nil {
		f.t.Fatalf("%v (make setup installs it)", err)
	}
	f.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if b, _ := os.ReadFile(filepath.Join(f.dir, "nginx.log")); f.t.Failed() {
			f.t.Logf("nginx:\n%s", b)
		}
	})
	err = kit.Until(f.t.Context(), 10*time.Second, "nginx to listen", func() (bool, string) {
		conn, err := net.Dial("tcp", f.http)
		if err != nil {
			return false, err.Error()
		}
		conn.Close()
		return true, ""
	})
	if err != nil {
		f.t.Fatal(err)
	}
}
