// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mux

import "net"

func setNotSent(*net.TCPConn) {}
