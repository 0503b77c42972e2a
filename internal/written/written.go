// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package written

import (
	"fmt"
	"io"
)

// Writer writes to another writer and remembers the first error.
type Writer struct {
	w   io.Writer
	err error
}

// New returns a Writer to w.
func New(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements io.Writer.
func (r *Writer) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("write the result: %w", err)
	}
	return n, err
}

// Err returns the first error of a Write, or nil.
func (r *Writer) Err() error { return r.err }
