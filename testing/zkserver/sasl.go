package zkserver

// sasl is answered as by a server that is not configured for it: with success, and no token. A request that cannot be
// read costs the connection, without an answer.
func (x *call) sasl() code {
	x.outside = true
	if token := x.in.buffer(); token == nil || x.in.bad {
		x.s.cut(x.c)
		return codeMarshalling
	}
	x.out.buffer(nil)
	return codeOK
}
