// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/go-zookeeper/zk"

// Stat reads a znode's metadata.
func (d *Decoder) Stat() zk.Stat {
	return zk.Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(),
		Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(),
		EphemeralOwner: d.Int64(),
		DataLength:     d.Int32(), NumChildren: d.Int32(),
		Pzxid: d.Int64(),
	}
}

// DataReply reads the reply to a request for data, and returns it as it is. The result aliases
// the decoder's input.
func (d *Decoder) DataReply() []byte {
	whole := d.buf
	d.Buffer()
	d.Stat()
	return d.readSince(whole)
}

// StatOfDataReply reads such a reply and returns its Stat as it is.
func (d *Decoder) StatOfDataReply() []byte {
	d.Buffer()
	stat := d.buf
	d.Stat()
	return d.readSince(stat)
}

// readSince returns what was read since the rest of the input was this.
func (d *Decoder) readSince(rest []byte) []byte {
	if d.err != nil {
		return nil
	}
	n := len(rest) - len(d.buf)
	return rest[:n:n]
}

// ACL appends an access control list.
func (e *Encoder) ACL(acl []zk.ACL) {
	e.Int32(int32(len(acl)))
	for _, a := range acl {
		e.Int32(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}

// ACL reads an access control list.
func (d *Decoder) ACL() []zk.ACL {
	const minEntry = 12
	n := d.Count(minEntry)
	acl := make([]zk.ACL, 0, n)
	for range n {
		acl = append(acl, zk.ACL{Perms: d.Int32(), Scheme: d.String(), ID: d.String()})
	}
	return acl
}

// A transaction is a list of operations, each behind a header, and so is its reply.
const (
	multiEnd   = -1 // the opcode of the header behind the last operation
	multiError = -1 // the opcode of a result that is an error code
)

// MultiOp appends the header of an operation of a transaction, or of its result.
func (e *Encoder) MultiOp(op int32) { e.multiHeader(op, false) }

// MultiEnd ends the list of operations.
func (e *Encoder) MultiEnd() { e.multiHeader(multiEnd, true) }

func (e *Encoder) multiHeader(op int32, done bool) {
	e.Int32(op)
	e.Bool(done)
	e.Int32(-1) // no error
}

// MultiResult reads the header of the next result. When failed is true, an error code
// follows instead of the operation's reply.
func (d *Decoder) MultiResult() (failed bool) {
	op := d.Int32()
	d.Bool()
	d.Int32()
	return op == multiError
}
