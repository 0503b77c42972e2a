// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	sandbox "github.com/sandbox-agent/sandbox-agent/sdk/go"
)

// pressed is a site under watch: health of a good service is to stay fresh
// whatever relays do.
func (s *site) pressed() *watch {
	s.t.Helper()
	s.startAgent()
	x := s.target(answer(200))
	s.exposeAll(s.client(), "", x)
	w := s.watch(serviceOf(x), append(good(x), fresh())...)
	w.untilState(20*time.Second, time.Time{}, sandbox.HealthHealthy)
	return w
}

// endless serves bytes without end.
func endless(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) }

// downloads opens many endless downloads of a service. What each of them brings
// goes to sink, which is nil for readers that read nothing.
func (s *site) downloads(n int, service string, sink func(io.Reader)) (end func()) {
	s.t.Helper()
	_, addr, _ := strings.Cut(s.at.HTTP, "://")
	var conns []net.Conn
	var wg sync.WaitGroup
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			s.t.Fatal(err)
		}
		conns = append(conns, c)
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hostOf(service)); err != nil {
			s.t.Fatal(err)
		}
		if sink != nil {
			wg.Go(func() { sink(c) })
		}
	}
	end = sync.OnceFunc(func() {
		for _, c := range conns {
			c.Close()
		}
		wg.Wait()
	})
	s.t.Cleanup(end)
	return end
}

// relaysOpen is the gateway's count.
func (s *site) relaysOpen() int {
	s.t.Helper()
	m, err := metrics(s.ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, s.at.Ops)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(m["sandbox_gateway_relays"])
}

// relayResults is how relays began, by the gateway's count.
func (s *site) relayResults() map[string]float64 {
	m, _ := metrics(s.ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, s.at.Ops)
	for name, n := range m {
		if n == 0 || !strings.HasPrefix(name, "sandbox_gateway_relays_total") {
			delete(m, name)
		}
	}
	return m
}

// D14: a hundred relays whose users read nothing delay no report.
func TestD14StalledRelays(t *testing.T) {
	t.Parallel()
	s, _ := linkedSite(t)
	w := s.pressed()
	s.expose("bulk", s.server(endless), "")
	s.downloads(100, "bulk", nil)
	s.during(pressure())
	if n := s.relaysOpen(); n < 100 {
		t.Errorf("only %d relays are open", n)
	}
	t.Logf("the oldest observation read was %v old", w.oldest())
}

// D14: a hundred downloads over a link of 2 Mbit/s delay a report by a queue
// that is bounded, and a hundred uploads an acknowledgement; the link is used
// meanwhile.
func TestD14SlowLink(t *testing.T) {
	t.Parallel()
	for name, transfer := range map[string]func(s *site, total *atomic.Int64){
		"downloads": func(s *site, total *atomic.Int64) {
			s.downloads(100, "bulk", func(r io.Reader) { _, _ = io.Copy(counting{total}, r) })
		},
		"uploads": func(s *site, _ *atomic.Int64) { s.uploads(100, "bulk") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, link := linkedSite(t)
			w := s.pressed()
			var total atomic.Int64
			s.expose("bulk", s.server(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					endless(w, r)
					return
				}
				_, _ = io.Copy(counting{&total}, r.Body)
			}), "")
			link.Limit(t, "2mbit")
			began := time.Now()
			transfer(s, &total)
			s.during(pressure())
			if n := s.relaysOpen(); n < 100 {
				t.Errorf("only %d relays are open: %v", n, s.relayResults())
			}
			rate := float64(total.Load()) * 8 / 1e6 / time.Since(began).Seconds()
			t.Logf("the oldest observation read was %v old; the %s made %.2f Mbit/s", w.oldest(), name, rate)
			if rate < 1 {
				t.Errorf("the %s made %.2f Mbit/s of 2", name, rate)
			}
		})
	}
}

// counting counts what is written to it.
type counting struct{ total *atomic.Int64 }

func (c counting) Write(p []byte) (int, error) {
	c.total.Add(int64(len(p)))
	return len(p), nil
}

// uploads sends many endless uploads to a service.
func (s *site) uploads(n int, service string) {
	u := s.user()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if resp, err := u.do("PUT", service, "/", zeros{}); err == nil {
				resp.Body.Close()
			}
		})
	}
	s.t.Cleanup(wg.Wait) // the test's context has ended then
}

// silent is a port of the sandbox that accepts no connection: its backlog is
// full.
func (s *site) silent() int {
	s.t.Helper()
	var port int
	err := s.ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return err
		}
		if err := unix.Listen(fd, 0); err != nil {
			return err
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			return err
		}
		port = name.(*unix.SockaddrInet4).Port
		for {
			c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), 200*time.Millisecond)
			if err != nil {
				return nil
			}
			s.t.Cleanup(func() { c.Close() })
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return port
}

// T20: three hundred relays to a port that never accepts, and to an application
// that accepts and says nothing, leave reports untouched; what is above the cap
// is refused with words.
func TestT20NobodyAccepts(t *testing.T) {
	t.Parallel()
	s, _ := linkedSite(t)
	w := s.pressed()
	s.expose("silent", s.silent(), "")
	mute, err := s.ns.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody else
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	s.expose("mute", mute.Addr().(*net.TCPAddr).Port, "")
	u := s.user()
	ask := func(service string) map[string]int {
		var mu sync.Mutex
		var wg sync.WaitGroup
		reasons := map[string]int{}
		for range 300 {
			wg.Go(func() {
				resp, err := u.do("POST", service, "/", strings.NewReader("x"))
				if err != nil {
					return // the end of the test
				}
				resp.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				reasons[fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Sandbox-Gateway-Error"))]++
			})
		}
		if service == "silent" {
			wg.Wait()
		} else {
			t.Cleanup(wg.Wait)
			s.during(pressure() / 2)
		}
		mu.Lock()
		defer mu.Unlock()
		return reasons
	}
	reasons := ask("silent")
	t.Logf("a port that never accepts: %v", reasons)
	if reasons["502 Timeout"]+reasons["503 TooMany"] != 300 || reasons["502 Timeout"] == 0 {
		t.Errorf("a port that never accepts: %v", reasons)
	}
	reasons = ask("mute")
	t.Logf("an application that says nothing: %v; the oldest observation read was %v old", reasons, w.oldest())
	if reasons["503 TooMany"] != 300-256 || len(reasons) != 1 || s.relaysOpen() != 256 {
		t.Errorf("an application that says nothing: %v, %d relays open", reasons, s.relaysOpen())
	}
	u.client.CloseIdleConnections()
}
