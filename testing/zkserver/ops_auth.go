package zkserver

import "slices"

// auth gives the connection another identity. A scheme that the server cannot check costs the connection, and so does a
// request that cannot be read, without an answer.
func (x *call) auth() code {
	x.outside = true
	x.in.int32() // type, always 0
	scheme, _ := x.in.text()
	credentials := x.in.buffer()
	if x.in.bad {
		x.end, x.mute = true, true
		return codeMarshalling
	}
	switch scheme {
	case "digest":
		if id := digestID(string(credentials)); !slices.Contains(x.c.ids, id) {
			x.c.ids = append(x.c.ids, id)
		}
	case "ip": // every connection has its address from the start
	default:
		x.end = true
		return codeAuthFailed
	}
	return codeOK
}

// sasl is answered as by a server that is not configured for it: with success, and no token.
func (x *call) sasl() code {
	x.outside = true
	if token := x.in.buffer(); token == nil || x.in.bad {
		x.end, x.mute = true, true
		return codeMarshalling
	}
	x.out.buffer(nil)
	return codeOK
}
