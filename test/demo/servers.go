// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// nginxConf is one nginx process on port 8080 of whatever sandbox it is in:
// /readyz answers 204 as soon as the file "ready" exists, until then 503.
const nginxConf = `
daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.log;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server {
    listen 127.0.0.1:8080;
    location = /readyz {
      if (!-f %[1]s/ready) { return 503; }
      return 204;
    }
    location / { return 200 "hello from nginx\n"; }
  }
}
`

// script runs nginx until the file "kill" exists, and stays when nginx is gone.
const script = `
nginx -c %[1]s/nginx.conf -e %[1]s/nginx.log &
until [ -e %[1]s/kill ]; do sleep 0.1; done
kill -9 $!
exec sleep infinity
`

// servers shows two real servers on the same port of two sandboxes.
func (s *stage) servers() error {
	conf := filepath.Join(s.dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, s.dir), 0o644); err != nil {
		return err
	}
	s.say("a sandbox with Python's web server on port 8080: any answer will do")
	if err := s.show("sandbox", "create", "web", "--driver", "local", "--expose", "8080",
		"--", "python3", "-m", "http.server", "8080", "--bind", "127.0.0.1"); err != nil {
		return err
	}
	s.say("a sandbox with nginx on port 8080: /readyz must answer 2xx")
	if err := s.show("sandbox", "create", "api", "--driver", "local", "--expose", "8080", "--expose-readiness-path", "/readyz",
		"--", "sh", "-c", fmt.Sprintf(script, s.dir)); err != nil {
		return err
	}
	steps := []struct {
		limit   time.Duration
		sandbox string
		want    string
		then    func() error
	}{
		{5 * time.Second, "api", "UNKNOWN", nil},
		{10 * time.Second, "web", "HEALTHY", nil},
		{20 * time.Second, "api", "UNHEALTHY/BadStatus", s.touch("ready", "nginx becomes ready")},
		{10 * time.Second, "api", "HEALTHY", s.touch("kill", "nginx is killed")},
		{20 * time.Second, "api", "UNHEALTHY/Refused", s.stop("api")},
		{5 * time.Second, "api", "UNKNOWN/SandboxStopped", nil},
		{1 * time.Second, "web", "HEALTHY", nil}, // all the while
	}
	for _, step := range steps {
		if err := s.expect(step.limit, step.sandbox, step.want); err != nil {
			return err
		}
		if step.then != nil {
			if err := step.then(); err != nil {
				return err
			}
		}
	}
	return s.show("service", "get", "web")
}

func (s *stage) touch(name, what string) func() error {
	return func() error {
		s.say("%s", what)
		return os.WriteFile(filepath.Join(s.dir, name), nil, 0o644)
	}
}

func (s *stage) stop(sandbox string) func() error {
	return func() error {
		s.say("the sandbox is stopped")
		return s.show("sandbox", "stop", sandbox)
	}
}
