// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

// scripted is a listener whose Accepts the test answers.
type scripted struct {
	net.Listener
	answers chan func() (net.Conn, error)
}

func (s scripted) Accept() (net.Conn, error) { return (<-s.answers)() }
func (s scripted) Close() error              { return nil }

// T26: an Accept that failed for want of descriptors is not the last one: who
// comes after it is waited for as well.
func TestEntranceWaitsAfterAFailedAccept(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := scripted{answers: make(chan func() (net.Conn, error))}
		e := newEntrance(l)
		accepted := make(chan net.Conn)
		accept := func() {
			go func() {
				c, _ := e.Accept()
				accepted <- c
			}()
		}
		refuse := func(err error) func() (net.Conn, error) {
			return func() (net.Conn, error) { return nil, err }
		}
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()

		accept()
		l.answers <- refuse(syscall.EMFILE)
		<-accepted
		accept()
		l.answers <- func() (net.Conn, error) { return near, nil }
		<-accepted
		accept()
		e.entered(near)
		shut := make(chan struct{})
		go func() { defer close(shut); e.shut(context.Background()) }()
		testkit.Wait()
		select {
		case <-shut:
			t.Error("the entrance is shut while somebody may still come in")
		default:
		}
		l.answers <- refuse(net.ErrClosed)
		<-accepted
		<-shut
	})
}
