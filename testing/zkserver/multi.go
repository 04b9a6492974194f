// SPDX-License-Identifier: Apache-2.0

package zkserver

// A multi is a list of operations, each after a header of type, done and error; a header that is done ends it. The reply
// has the same form.

func (e *encoder) multiHeader(op OpCode, done bool, err int32) {
	e.int32(int32(op))
	e.bool(done)
	e.int32(err)
}

func (e *encoder) multiEnd() {
	e.multiHeader(opError, true, -1)
}

func (e *encoder) multiError(err code) {
	e.multiHeader(opError, false, int32(err))
	e.int32(int32(err))
}

// multiOp is one operation of a multi.
type multiOp struct {
	op      OpCode
	create  createRequest
	path    string
	data    []byte
	version int32
}

// decodeMulti reads all operations. A list with a malformed operation is refused as a whole.
func decodeMulti(in *decoder) []multiOp {
	var ops []multiOp
	for {
		op, done := in.multiHeader()
		if done {
			return ops
		}
		m := multiOp{op: op}
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
			m.create = decodeCreate(in, op)
			m.create.fitMulti()
		case OpDelete, OpCheck:
			m.path, m.version = in.string(), in.int32()
		case OpSetData:
			m.path, m.data, m.version = in.string(), in.buffer(), in.int32()
		default:
			in.bad = true
		}
		ops = append(ops, m)
	}
}

// fitMulti sets the kind of create from the flags, which decide it in a multi. Flags that ask for a TTL decide
// nothing: a request without a TTL keeps its kind and fails when its turn comes.
func (r *createRequest) fitMulti() {
	switch {
	case r.flags == flagContainer:
		r.op = OpCreateContainer
	case r.wantsTTL():
	case r.op != OpCreate2:
		r.op, r.ttl = OpCreate, -1
	}
}

// multi applies all operations in one transaction, or none. The request succeeds even when an operation fails: the
// reply has the outcome of each operation, 0 for the operations before the failure. The request fails only if its
// list is malformed, or if it has a create that is incomplete.
func (x *call) multi() code {
	ops := decodeMulti(&x.in)
	t := x.begin()
	if x.in.bad {
		return codeMarshalling
	}
	for i, m := range ops {
		err := x.multiOp(t, m)
		if err == codeOK {
			continue
		}
		t.rollback()
		if err == codeMarshalling {
			return err
		}
		x.out.beginReply()
		x.multiFailure(len(ops), i, err)
		return codeOK
	}
	x.out.multiEnd()
	t.commit()
	return codeOK
}

// multiOp does one operation and writes its result.
func (x *call) multiOp(t *txn, m multiOp) code {
	switch m.op {
	case OpDelete:
		x.out.multiHeader(OpDelete, false, 0)
		return t.delete(m.path, m.version)
	case OpCheck:
		x.out.multiHeader(OpCheck, false, 0)
		_, err := t.check(m.path, m.version)
		return err
	case OpSetData:
		n, err := t.setData(m.path, m.data, m.version)
		x.out.multiHeader(OpSetData, false, 0)
		return x.answerStat(n, err)
	default:
		return x.multiCreate(t, m.create)
	}
}

// multiCreate answers every kind of create but the oldest as create2.
func (x *call) multiCreate(t *txn, r createRequest) code {
	if r.wantsTTL() && r.op != OpCreateTTL {
		return codeMarshalling
	}
	path, n, err := t.create(r)
	switch {
	case err != codeOK:
	case r.op == OpCreate:
		x.out.multiHeader(OpCreate, false, 0)
		x.out.string(path)
	default:
		x.out.multiHeader(OpCreate2, false, 0)
		x.out.string(path)
		x.out.stat(n)
	}
	return err
}

// multiFailure writes the results of n operations; operation failed has failed with err.
func (x *call) multiFailure(n, failed int, err code) {
	for i := range n {
		switch {
		case i < failed:
			x.out.multiError(codeOK)
		case i == failed:
			x.out.multiError(err)
		default:
			x.out.multiError(codeRuntimeInconsistency)
		}
	}
	x.out.multiEnd()
}

// multiRead answers reads one by one: the failure of one does not concern the others. They set no watches.
func (x *call) multiRead() code {
	for {
		op, done := x.in.multiHeader()
		if done {
			break
		}
		path, _ := x.pathAndWatch()
		if x.in.bad {
			break
		}
		start := len(x.out.b)
		if start > x.s.cfg.maxQueued { // too much for one client, see conn.send
			x.end = true
			return codeMarshalling
		}
		x.out.multiHeader(op, false, 0)
		var err code
		switch op {
		case OpGetData:
			err = x.readData(path, false)
		case OpGetChildren:
			_, err = x.readChildren(path, false)
		default:
			return codeMarshalling
		}
		if err != codeOK {
			x.out.b = x.out.b[:start]
			x.out.multiError(err)
		}
	}
	if x.in.bad {
		return codeMarshalling
	}
	x.out.multiEnd()
	return codeOK
}
