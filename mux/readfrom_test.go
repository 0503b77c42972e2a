// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package mux_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/sandbox-agent/sandbox-agent/mux"
)

// failing gives some bytes in pieces, and then an error.
type failing struct {
	left []byte
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 100_001)], f.left)
	if f.left = f.left[n:]; len(f.left) == 0 {
		return n, f.err
	}
	return n, nil
}

// Copying to a stream sends all there is, also what comes with an error, and
// says which side it was that ended it.
func TestReadFrom(t *testing.T) {
	each(t, func(t *testing.T, kind mux.Kind, opener, _ *mux.Session, got chan *mux.Stream) {
		payload := make([]byte, 3<<20+17)
		_, _ = rand.NewChaCha8([32]byte{2}).Read(payload)
		broken := errors.New("broken")
		for _, want := range []error{nil, broken} {
			end := want
			if end == nil {
				end = io.EOF
			}
			out := open(t, opener, kind, "svc")
			in := <-got
			copied := make(chan error, 1)
			go func() {
				n, err := io.Copy(out, &failing{payload, end})
				if n != int64(len(payload)) || err != want {
					err = fmt.Errorf("%d bytes, %w, want %w", n, err, want)
				} else {
					err = nil
				}
				_ = out.Close()
				copied <- err
			}()
			if p, err := io.ReadAll(in); err != nil || !bytes.Equal(p, payload) {
				t.Errorf("%d of %d bytes arrived, %v", len(p), len(payload), err)
			}
			if err := <-copied; err != nil {
				t.Error(err)
			}
			_ = in.Close()
		}
		out := open(t, opener, kind, "svc")
		_ = (<-got).Reset()
		if _, err := io.Copy(out, zeros{}); !errors.Is(err, mux.ErrReset) {
			t.Errorf("to a stream that was reset: %v", err)
		}
		_ = out.Close()
	})
}
