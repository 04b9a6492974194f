// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"encoding/binary"
	"strconv"
)

// The encoding is ZooKeeper's jute: big-endian numbers, one byte for a bool, and a 32-bit count before the bytes of a
// string or a buffer and before the elements of a vector. A count of -1 means null.

// decoder reads the fields of one request. The first field that does not fit sets bad and every later read gives a
// zero value, so a handler reads all its fields and then looks at bad once.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return len(b) > 0 && b[0] != 0
}

// text reads a string; null is told apart because ZooKeeper fails on it where it needs a path.
func (d *decoder) text() (s string, null bool) {
	n := d.int32()
	if n == -1 && !d.bad {
		return "", true
	}
	return string(d.take(int(n))), false
}

// string reads a string that must not be null.
func (d *decoder) string() string {
	s, null := d.text()
	if null {
		d.bad = true
	}
	return s
}

// path reads a path that is going to be validated, which fails for null as for the empty string.
func (d *decoder) path() string {
	s, _ := d.text()
	return s
}

// buffer reads bytes into memory of their own, since a frame's memory is used again for the next one. Null gives nil,
// an empty buffer does not.
func (d *decoder) buffer() []byte {
	n := d.int32()
	if n == -1 || d.bad {
		return nil
	}
	b := d.take(int(n))
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// count reads the number of elements of a vector, each of at least size bytes; null gives -1.
func (d *decoder) count(size int) int {
	n := int(d.int32())
	if n < -1 || n > len(d.b)/size {
		d.bad = true
		return 0
	}
	return n
}

// strings reads a vector that must not be null.
func (d *decoder) strings() []string {
	n := d.count(4)
	if n < 0 {
		d.bad = true
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.string())
	}
	return list
}

func (d *decoder) acl() []aclEntry {
	var list []aclEntry
	for range d.count(12) {
		perms := d.int32()
		scheme, _ := d.text()
		id, null := d.text()
		list = append(list, aclEntry{perms: perms, id: authID{scheme: scheme, id: id, null: null}})
	}
	return list
}

// encoder builds frames. Its memory is used again for every reply, under Server.mu.
type encoder struct {
	b []byte
}

func (e *encoder) int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) string(s string) {
	e.int32(int32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) buffer(b []byte) {
	if b == nil {
		e.int32(-1)
		return
	}
	e.int32(int32(len(b)))
	e.b = append(e.b, b...)
}

func (e *encoder) strings(list []string) {
	e.int32(int32(len(list)))
	for _, s := range list {
		e.string(s)
	}
}

func (e *encoder) acl(list []aclEntry) {
	e.int32(int32(len(list)))
	for _, a := range list {
		e.int32(a.perms)
		e.string(a.id.scheme)
		e.string(a.id.id)
	}
}

// replyHeaderSize is the length prefix and the header of a reply: xid, zxid, error.
const replyHeaderSize = 4 + 4 + 8 + 4

// beginReply leaves room for what endReply fills in once the outcome is known.
func (e *encoder) beginReply() {
	e.b = append(e.b[:0], make([]byte, replyHeaderSize)...)
}

// endReply completes the frame. The reply to a failed request is its header alone.
func (e *encoder) endReply(xid int32, zxid int64, err code) []byte {
	if err != codeOK {
		e.b = e.b[:replyHeaderSize]
	}
	binary.BigEndian.PutUint32(e.b[4:], uint32(xid))
	binary.BigEndian.PutUint64(e.b[8:], uint64(zxid))
	binary.BigEndian.PutUint32(e.b[16:], uint32(err))
	return e.sized()
}

// sized returns the frame whose first four bytes were left for its length.
func (e *encoder) sized() []byte {
	binary.BigEndian.PutUint32(e.b, uint32(len(e.b)-4))
	return e.b
}

// multiHeader reads the header of an operation of a multi. It is done after the last one.
func (d *decoder) multiHeader() (op OpCode, done bool) {
	op, done = OpCode(d.int32()), d.bool()
	d.int32() // error, unused in requests
	return op, done || d.bad
}

// hexID writes a session id as ZooKeeper does.
func hexID(id int64) string {
	return "0x" + strconv.FormatUint(uint64(id), 16)
}
