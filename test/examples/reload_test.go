// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"
)

// T22: the page of the dev server is told of the change that the example makes,
// over the WebSocket that it opens by its own URL, as a browser does.
func TestDevServer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	told := make(chan error, 1)
	s.follow("examples/dev-server/README.md", map[string]func(){
		"hello again": func() {
			frames, err := s.openReload("default--dev.sandbox.localhost")
			if err != nil {
				t.Fatal(err)
			}
			go func() { told <- untilUpdate(frames) }()
		},
		"sandbox delete": func() {
			if err := <-told; err != nil {
				t.Error(err)
			}
		},
	})
}

var wsToken = regexp.MustCompile(`wsToken = "([^"]+)"`)

// openReload opens what Vite's script opens in a page.
func (s *stage) openReload(host string) (io.Reader, error) {
	at, err := url.Parse(s.at.HTTP)
	if err != nil {
		return nil, err
	}
	host += ":" + at.Port()
	call := func(path string, header map[string]string) (*http.Response, *bufio.Reader, error) {
		conn, err := net.DialTimeout("tcp", at.Host, 5*time.Second)
		if err != nil {
			return nil, nil, err
		}
		s.t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
		text := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n"
		for name, value := range header {
			text += name + ": " + value + "\r\n"
		}
		if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
			return nil, nil, err
		}
		r := bufio.NewReader(conn)
		answer, err := http.ReadResponse(r, nil)
		return answer, r, err
	}
	script, _, err := call("/@vite/client", nil)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(script.Body)
	token := wsToken.FindSubmatch(text)
	if err != nil || token == nil {
		return nil, fmt.Errorf("no token in %s of %d bytes: %w", script.Status, len(text), err)
	}
	socket, frames, err := call("/?token="+url.QueryEscape(string(token[1])), map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Origin": "http://" + host,
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "vite-hmr",
	})
	if err != nil {
		return nil, err
	}
	if socket.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("the WebSocket is answered %s", socket.Status)
	}
	return frames, nil
}

// untilUpdate reads frames until one says that the changed module is to be
// loaded; one that says that the page is to be loaded anew is an error.
func untilUpdate(frames io.Reader) error {
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(frames, head); err != nil {
			return fmt.Errorf("no update: %w", err)
		}
		length := int(head[1]) // a server does not mask
		if length == 126 {
			long := make([]byte, 2)
			if _, err := io.ReadFull(frames, long); err != nil {
				return fmt.Errorf("no update: %w", err)
			}
			length = int(binary.BigEndian.Uint16(long))
		}
		message := make([]byte, length)
		if _, err := io.ReadFull(frames, message); err != nil {
			return fmt.Errorf("no update: %w", err)
		}
		switch {
		case bytes.Contains(message, []byte(`"full-reload"`)):
			return fmt.Errorf("the page is to be loaded anew: %q", message)
		case bytes.Contains(message, []byte(`"update"`)) && bytes.Contains(message, []byte("/text.js")):
			return nil
		}
	}
}
