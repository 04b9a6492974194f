// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// Encoder builds one record by appending its fields in order. The zero value
// is ready to use.
type Encoder struct {
	buf []byte
}

// NewEncoder returns an encoder with room for size bytes.
func NewEncoder(size int) *Encoder { return &Encoder{buf: make([]byte, 0, size)} }

// AppendTo returns an encoder that appends to b.
func AppendTo(b []byte) *Encoder { return &Encoder{buf: b} }

// Bytes returns what has been written. The slice is the encoder's own.
func (e *Encoder) Bytes() []byte { return e.buf }

// Int32 appends a 32-bit integer.
func (e *Encoder) Int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }

// Int64 appends a 64-bit integer.
func (e *Encoder) Int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

// Bool appends a boolean.
func (e *Encoder) Bool(v bool) {
	if v {
		e.buf = append(e.buf, 1)
		return
	}
	e.buf = append(e.buf, 0)
}

// String appends a string.
func (e *Encoder) String(v string) {
	e.Int32(int32(len(v)))
	e.buf = append(e.buf, v...)
}

// Buffer appends a byte buffer; nil is written as the null buffer.
func (e *Encoder) Buffer(v []byte) {
	if v == nil {
		e.Int32(-1)
		return
	}
	e.Int32(int32(len(v)))
	e.buf = append(e.buf, v...)
}

// Raw appends bytes that are encoded already.
func (e *Encoder) Raw(v []byte) { e.buf = append(e.buf, v...) }
