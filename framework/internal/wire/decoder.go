// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// ErrMalformed reports a record that is shorter than its fields say, or whose
// counts cannot be true.
var ErrMalformed = errors.New("jute: malformed record")

// Decoder reads the fields of one record in order. The first field that does not fit
// makes the decoder fail. That call and all later calls return zero values, and
// [Decoder.Err] says why.
type Decoder struct {
	buf []byte
	err error
}

// NewDecoder returns a decoder that reads from buf, which must not change any more: strings and
// buffers share its memory. So each frame of a connection is read into memory of its own.
func NewDecoder(buf []byte) *Decoder { return &Decoder{buf: buf} }

// Err returns the first failure, an error that matches [ErrMalformed], or nil.
func (d *Decoder) Err() error { return d.err }

// Len returns how many bytes have not been read.
func (d *Decoder) Len() int { return len(d.buf) }

// Reject makes the decoder fail because of what the fields say, unless it has failed
// before.
func (d *Decoder) Reject(why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrMalformed, why)
	}
}

// Int32 reads a 32-bit integer.
func (d *Decoder) Int32() int32 {
	b := d.take(4, "int")
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

// Int64 reads a 64-bit integer.
func (d *Decoder) Int64() int64 {
	b := d.take(8, "long")
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// Bool reads a boolean; any byte but zero is true.
func (d *Decoder) Bool() bool {
	b := d.take(1, "boolean")
	return len(b) == 1 && b[0] != 0
}

// Buffer reads a byte buffer, nil for the null buffer. The result aliases the
// decoder's input.
func (d *Decoder) Buffer() []byte {
	n := d.Int32()
	if d.err != nil || n == -1 {
		return nil
	}
	return d.take(int(n), "buffer")
}

// String reads a string; the null string reads as the empty one. A caller that keeps it for long
// clones it, as it keeps the whole input.
func (d *Decoder) String() string {
	b := d.Buffer()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Count reads the length of a vector whose elements take at least elemSize
// bytes each; the null vector has length 0.
func (d *Decoder) Count(elemSize int) int {
	n := d.Int32()
	if d.err != nil || n == -1 {
		return 0
	}
	if n < 0 || int(n) > len(d.buf)/elemSize {
		d.fail("vector", int(n))
		return 0
	}
	return int(n)
}

// Strings reads a vector of strings, as [Decoder.String] does.
func (d *Decoder) Strings() []string {
	n := d.Count(4)
	out := make([]string, 0, n)
	for range n {
		out = append(out, d.String())
	}
	if d.err != nil {
		return nil
	}
	return out
}

func (d *Decoder) take(n int, what string) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.buf) {
		d.fail(what, n)
		return nil
	}
	b := d.buf[:n:n]
	d.buf = d.buf[n:]
	return b
}

func (d *Decoder) fail(what string, n int) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s of length %d with %d bytes left", ErrMalformed, what, n, len(d.buf))
	}
}
