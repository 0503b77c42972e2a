// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package written_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
	"github.com/sandbox-agent/sandbox-agent/internal/written"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// failing takes some writes, then fails each time with another error.
type failing struct {
	took strings.Builder
	errs []error
}

func (f *failing) Write(p []byte) (int, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	if err != nil {
		return 0, err
	}
	return f.took.Write(p)
}

func TestTheFirstErrorStays(t *testing.T) {
	f := &failing{errs: []error{nil, iotest.ErrTimeout, io.ErrClosedPipe, nil}}
	w := written.New(f)
	if n, err := io.WriteString(w, "one"); n != 3 || err != nil || w.Err() != nil {
		t.Fatalf("%d, %v; %v", n, err, w.Err())
	}
	for _, want := range []error{iotest.ErrTimeout, io.ErrClosedPipe, nil} {
		if _, err := io.WriteString(w, "two"); err != want { //nolint:errorlint // it is passed on as it is
			t.Errorf("%v, want %v", err, want)
		}
		if !errors.Is(w.Err(), iotest.ErrTimeout) || !strings.HasPrefix(w.Err().Error(), "write the result: ") {
			t.Errorf("remembered %v", w.Err())
		}
	}
	if f.took.String() != "onetwo" {
		t.Errorf("wrote %q", f.took.String())
	}
}
