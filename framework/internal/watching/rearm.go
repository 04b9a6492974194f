// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// rearmFrame is the length in bytes of one request that sets watches again, at most, as in
// ZooKeeper's own clients.
const rearmFrame = 128 << 10

// disconnectPersistentLocked notes that the server's watches are gone.
func (r *Registry) disconnectPersistentLocked() {
	r.connection++
	r.stale, r.resting = nil, false
	for full, e := range r.persistent {
		e.armed, e.recursive, e.pending, e.repairs, e.owes = false, false, 0, 0, false
		if !e.isUsed() {
			delete(r.persistent, full)
		}
	}
}

// rearmNextLocked sets the next of the watches again that were lost with a connection, as
// many as fit into one request. The rest waits for the reply, so that other requests and
// pings get in between, however many watches there are.
func (r *Registry) rearmNextLocked() {
	var paths [modes][]string
	limit := min(rearmFrame, r.cfg.MaxRequest) - setWatches2Header
	size := 0
	for len(r.stale) > 0 {
		full := r.stale[0]
		length := pathHeader + len(full)
		if size > 0 && size+length > limit {
			break
		}
		r.stale = r.stale[1:]
		// A watch may have been cancelled since the connection was made.
		e := r.persistent[full]
		if !e.isUsed() {
			e.endRepair()
			r.settleLocked(full)
			continue
		}
		if length > limit {
			r.repairLocked(full) // whose request is shorter
			continue
		}
		paths[e.mode()] = append(paths[e.mode()], full)
		size += length
	}
	if size == 0 {
		return
	}
	call := &conduit.Call{Op: wire.OpSetWatches2, Body: setWatches2Body(size, paths)}
	call.OnDone = func(reply conduit.Reply, err error) { r.rearmedAll(call, paths, reply, err) }
	_ = r.cfg.Send(call) // not sent means no connection: the next one begins with all of them
}

func (r *Registry) rearmedAll(call *conduit.Call, paths [modes][]string, reply conduit.Reply, err error) {
	if err != nil {
		return // the connection is gone, as OnDisconnected reports; mu may be held here
	}
	r.mu.Lock()
	var ended []*Watch
	refused := r.refusalLocked(call, reply.Code)
	for mode, all := range paths {
		for _, full := range all {
			switch {
			case refused == nil || reply.Code == wire.CodeUnimplemented:
				ended = r.rearmedOneLocked(ended, full, Mode(mode), refused)
			case r.cfg.MayPass(refused):
				r.postponeLocked(full)
			default: // one of them may be to blame: the server answers for each by itself
				r.repairLocked(full)
			}
		}
	}
	if !r.resting {
		r.rearmNextLocked()
	}
	r.mu.Unlock()
	r.report(ended)
}

// postponeLocked has the watch of a path set again in a while, as the server is too busy now.
// The repair goes on meanwhile.
func (r *Registry) postponeLocked(full string) {
	r.stale = append(r.stale, full)
	if r.resting {
		return
	}
	r.resting = true
	connection := r.connection
	time.AfterFunc(askAgain, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if connection == r.connection { // or the new one has begun with all of them
			r.resting = false
			r.rearmNextLocked()
		}
	})
}

// rearmLocked sets the watch of one path again. Its users get [Resync] when the server has
// done so.
func (r *Registry) rearmLocked(full string) {
	// One-shot watches depend on it as well, and so does the next watch that joins.
	if e := r.persistent[full]; e.isUsed() || r.hasOneShotLocked(full) {
		e.beginRepair()
		r.repairLocked(full)
	}
}

// repairLocked sends the request of a repair.
func (r *Registry) repairLocked(full string) {
	e := r.persistent[full]
	if !e.isUsed() && !r.hasOneShotLocked(full) {
		e.endRepair()
		r.settleLocked(full)
		return
	}
	mode := e.mode()
	call := &conduit.Call{Op: wire.OpAddWatch, Body: AddWatchBody(full, mode)}
	call.OnDone = func(reply conduit.Reply, err error) { r.rearmed(call, full, mode, reply, err) }
	if r.cfg.Send(call) != nil {
		e.endRepair() // no connection: the next one begins with it
	}
}

func (r *Registry) rearmed(call *conduit.Call, full string, mode Mode, reply conduit.Reply, err error) {
	if err != nil {
		return // the connection is gone, as OnDisconnected reports; mu may be held here
	}
	r.mu.Lock()
	ended := r.rearmedOneLocked(nil, full, mode, r.refusalLocked(call, reply.Code))
	r.mu.Unlock()
	r.report(ended)
}

// refusalLocked returns the error for the code of a reply, nil for success.
func (r *Registry) refusalLocked(call *conduit.Call, code int32) error {
	if code == 0 {
		return nil
	}
	return r.cfg.Refusal(call, code)
}

// rearmedOneLocked notes the outcome of setting one watch again, and appends the one-shot watches
// that it ends.
func (r *Registry) rearmedOneLocked(ended []*Watch, full string, mode Mode, refused error) []*Watch {
	e := r.persistent[full]
	if refused == nil {
		e.endRepair()
		e.armed, e.recursive = true, mode == Recursive
		for w := range e.users {
			w.notify(Event{Type: Resync, Path: full})
		}
		r.settleLocked(full)
		return ended
	}
	// The repair was for a watch that a one-shot or a plain one has replaced at the server.
	e.owes = e.owes || e.armed || r.hasOneShotLocked(full)
	e.armed, e.recursive = false, false
	if r.cfg.MayPass(refused) {
		r.postponeLocked(full)
	} else {
		e.endRepair()
		for w := range e.users {
			w.finishLocked(refused)
			delete(e.users, w)
		}
	}
	// They may depend on the missing watch.
	for _, kind := range []Kind{Data, Children} {
		ended = r.endLocked(ended, Key{full, kind}, Event{Type: zk.EventNotWatching, Err: r.cfg.Lost})
	}
	r.settleLocked(full)
	return ended
}

// AddWatchBody returns the request record of addWatch.
func AddWatchBody(full string, mode Mode) []byte {
	e := wire.NewEncoder(len(full) + 8)
	e.String(full)
	e.Int32(int32(mode))
	return e.Bytes()
}

func removeWatchesBody(key Key) []byte {
	e := wire.NewEncoder(len(key.Full) + 8)
	e.String(key.Full)
	e.Int32(int32(key.Kind))
	return e.Bytes()
}

// Lengths in setWatches2: of what is not a path, and of what a path has beside its bytes.
const (
	setWatches2Header = 8 + 5*4
	pathHeader        = 4
)

// setWatches2Body returns the request record of setWatches2. size is the length of the paths.
func setWatches2Body(size int, paths [modes][]string) []byte {
	e := wire.NewEncoder(setWatches2Header + size)
	e.Int64(0) // the transaction up to which one-shot watches know what has happened
	for range 3 {
		e.Int32(0) // no one-shot watches: on data, absent znodes, lists of children
	}
	for _, mode := range []Mode{Plain, Recursive} {
		e.Int32(int32(len(paths[mode])))
		for _, full := range paths[mode] {
			e.String(full)
		}
	}
	return e.Bytes()
}
