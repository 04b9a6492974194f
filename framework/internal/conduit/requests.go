package conduit

import "time"

// pendingRequest is a request on the wire, ours (call is set) or go-zookeeper's.
type pendingRequest struct {
	xid  int32
	op   int32
	sent time.Time
	call *Call
}

// requests is a queue of requests. It uses its memory again, as a connection has one
// request after the other for as long as it lives.
type requests struct {
	slots []pendingRequest
	gone  int // of slots: those at the beginning that have left the queue
}

func (r *requests) push(p pendingRequest) {
	if len(r.slots) == cap(r.slots) && r.gone > len(r.slots)/2 {
		kept := copy(r.slots, r.all())
		clear(r.slots[kept:])
		r.slots, r.gone = r.slots[:kept], 0
	}
	r.slots = append(r.slots, p)
}

// first returns the request that was pushed first, false if there is none.
func (r *requests) first() (pendingRequest, bool) {
	if len(r.all()) == 0 {
		return pendingRequest{}, false
	}
	return r.all()[0], true
}

// pop takes the first one out; there must be one.
func (r *requests) pop() {
	r.slots[r.gone] = pendingRequest{}
	r.gone++
	if len(r.all()) == 0 {
		r.slots, r.gone = r.slots[:0], 0
	}
}

// all returns those in the queue.
func (r *requests) all() []pendingRequest { return r.slots[r.gone:] }
