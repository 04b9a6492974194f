// SPDX-License-Identifier: Apache-2.0

package zkserver

// write does a single write in a transaction of its own, unless the request is malformed.
func (x *call) write(do func(*txn) code) code {
	t := x.begin()
	if x.in.bad {
		return codeMarshalling
	}
	err := do(t)
	if err != codeOK {
		t.rollback()
		return err
	}
	t.commit()
	return codeOK
}

// answerStat answers a write by the Stat of its node.
func (x *call) answerStat(n *node, err code) code {
	if err == codeOK {
		x.out.stat(n)
	}
	return err
}

// decodeCreate reads the request of any kind of create.
func decodeCreate(in *decoder, op OpCode) createRequest {
	r := createRequest{op: op, path: in.string(), data: in.buffer(), acl: in.acl(), flags: in.int32(), ttl: -1}
	if op == OpCreateTTL {
		r.ttl = in.int64()
	}
	return r
}

// create serves all kinds of create. Only the oldest one gets no Stat.
func (x *call) create() code {
	r := decodeCreate(&x.in, x.op)
	return x.write(func(t *txn) code {
		path, n, err := t.create(r)
		switch {
		case err != codeOK:
			return err
		case x.s.cfg.keeper:
			empty := *n
			empty.data = nil
			n = &empty
		}
		x.out.string(path)
		if x.op != OpCreate {
			x.out.stat(n)
		}
		return codeOK
	})
}

func (x *call) delete() code {
	path, version := x.in.string(), x.in.int32()
	return x.write(func(t *txn) code { return t.delete(path, version) })
}

func (x *call) setData() code {
	path, data, version := x.in.path(), x.in.buffer(), x.in.int32()
	return x.write(func(t *txn) code { return x.answerStat(t.setData(path, data, version)) })
}

func (x *call) setACL() code {
	path, acl, version := x.in.path(), x.in.acl(), x.in.int32()
	return x.write(func(t *txn) code { return x.answerStat(t.setACL(path, acl, version)) })
}

// check serves a check outside a multi, which clients do not send.
func (x *call) check() code {
	path, version := x.in.path(), x.in.int32()
	return x.write(func(t *txn) code { return x.answerStat(t.check(path, version)) })
}

// reconfig is refused, as on any server that does not allow it or that is alone. Unlike other writes, a malformed
// reconfig is no transaction.
func (x *call) reconfig() code {
	for range 3 { // joining, leaving and new members
		x.in.text()
	}
	x.in.int64() // the version of the configuration
	if x.in.bad {
		return codeMarshalling
	}
	x.begin()
	if x.s.cfg.reconfig {
		return codeUnimplemented
	}
	return codeReconfigDisabled
}

// closeSession ends the session before the reply, and the connection after it.
func (x *call) closeSession() code {
	x.wrote, x.end = true, true
	x.s.noteConn(SessionClosed, x.c, "")
	x.s.log.Info("session closed", "session", hexID(x.c.session.id))
	x.s.endSession(x.c.session)
	x.s.detach(x.c)
	return codeOK
}

// auth gives the connection another identity. A scheme that the server cannot check ends the connection, and so does
// an identity too many, and a malformed request, without an answer.
func (x *call) auth() code {
	x.outside = true
	x.in.int32() // type, always 0
	scheme, _ := x.in.text()
	credentials := x.in.buffer()
	if x.in.bad {
		x.s.cut(x.c)
		return codeMarshalling
	}
	var id authID
	switch scheme {
	case "digest":
		id = digestID(string(credentials))
	case "ip":
		return codeOK // every connection has its address from the start
	default:
		x.end = true
		return codeAuthFailed
	}
	if !x.s.proved(x.c, id) {
		x.end = true
		return codeAuthFailed
	}
	return codeOK
}
