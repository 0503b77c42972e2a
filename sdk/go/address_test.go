// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"strconv"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want address
		err  error
	}{
		{"https://gateway.example:17670", address{"gateway.example", "17670", true}, nil},
		{"https://gateway.example", address{"gateway.example", "443", true}, nil},
		{"http://localhost", address{"localhost", "80", false}, nil},
		{"http://[::1]:8080/", address{"::1", "8080", false}, nil},
		{"HTTPS://10.0.0.1:1", address{"10.0.0.1", "1", true}, nil},
		{"", address{}, errAddressForm},
		{"gateway.example:17670", address{}, errAddressForm},
		{"127.0.0.1:17670", address{}, errAddressForm},
		{"https://", address{}, errAddressForm},
		{"https://:17670", address{}, errAddressForm},
		{"ftp://gateway.example", address{}, errAddressForm},
		{"https://gateway.example:port", address{}, errAddressForm},
		{"https://gateway.example:0", address{}, errAddressPort},
		{"https://gateway.example:65536", address{}, errAddressPort},
		{"https://user@gateway.example", address{}, errAddressMore},
		{"https://gateway.example/path", address{}, errAddressMore},
		{"https://gateway.example?q", address{}, errAddressMore},
		{"https://gateway.example?", address{}, errAddressMore},
		{"https://gateway.example#f", address{}, errAddressMore},
	} {
		got, err := parseAddress(tt.in)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("parseAddress(%q) = %+v, %v; want %+v, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"localhost.example": false, "10.0.0.1": false, "0.0.0.0": false, "::": false, "gateway": false, "127.0.0.1.example": false,
	} {
		if got := (address{host: host}).loopback(); got != want {
			t.Errorf("loopback(%q) = %v, want %v", host, got, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"https://h:1", "http://[::1]:2/", "https://[fe80::1%25x]:3", "https://h:99999", "//h", "https://u:p@h", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseAddress(s)
		if err != nil {
			return
		}
		n, err := strconv.Atoi(a.port)
		if a.host == "" || err != nil || n < 1 || n > 65535 {
			t.Errorf("parseAddress(%q) accepted %+v", s, a)
		}
	})
}
