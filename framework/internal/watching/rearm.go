package watching

import (
	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// rearmFrame is the length in bytes of the paths in one request that sets watches again,
// as in ZooKeeper's own clients.
const rearmFrame = 128 << 10

// disconnectPersistentLocked notes that the server's watches are gone.
func (r *Registry) disconnectPersistentLocked() {
	r.connection++
	r.stale = nil
	for full, e := range r.persistent {
		e.armed, e.recursive, e.pending, e.owes = false, false, 0, false
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
	size := 0
	for size < rearmFrame && len(r.stale) > 0 {
		full := r.stale[0]
		r.stale = r.stale[1:]
		// A watch may have been cancelled since the connection was made.
		if e := r.persistent[full]; e != nil && e.isUsed() {
			paths[e.mode()] = append(paths[e.mode()], full)
			size += 4 + len(full)
			e.pending++
		}
	}
	if size == 0 {
		return
	}
	// Not sent means no connection: the next one begins with all of them.
	_ = r.cfg.Send(&conduit.Call{
		Op: wire.OpSetWatches2, Body: setWatches2Body(size, paths),
		OnDone: func(reply conduit.Reply, err error) { r.rearmedAll(paths, reply, err) },
	})
}

func (r *Registry) rearmedAll(paths [modes][]string, reply conduit.Reply, err error) {
	if err != nil {
		return // the connection is gone, as OnDisconnected reports; mu may be held here
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := r.refusalLocked(reply.Code)
	for mode, all := range paths {
		for _, full := range all {
			if refused == nil || reply.Code == wire.CodeUnimplemented {
				r.rearmedOneLocked(full, Mode(mode), refused)
				continue
			}
			// One of them may be to blame: the server answers for each by itself.
			r.persistent[full].pending--
			r.rearmLocked(full)
			r.settleLocked(full)
		}
	}
	r.rearmNextLocked()
}

// rearmLocked sets the watch of one path again. Its users get [Resync] when the server has
// done so.
func (r *Registry) rearmLocked(full string) {
	e := r.persistent[full]
	// One-shot watches count on it as well, and so does the next that joins.
	if !e.isUsed() && !r.hasOneShotLocked(full) {
		return
	}
	mode := e.mode()
	// Not sent means no connection: the next one begins with it.
	if r.cfg.Send(&conduit.Call{
		Op: wire.OpAddWatch, Body: AddWatchBody(full, mode),
		OnDone: func(reply conduit.Reply, err error) { r.rearmed(full, mode, reply, err) },
	}) == nil {
		e.pending++
	}
}

func (r *Registry) rearmed(full string, mode Mode, reply conduit.Reply, err error) {
	if err != nil {
		return // the connection is gone, as OnDisconnected reports; mu may be held here
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rearmedOneLocked(full, mode, r.refusalLocked(reply.Code))
}

// refusalLocked returns the error for the code of a reply, nil for success.
func (r *Registry) refusalLocked(code int32) error {
	if code == 0 {
		return nil
	}
	return r.cfg.Refusal(r.server, code)
}

// rearmedOneLocked notes the outcome of setting one watch again.
func (r *Registry) rearmedOneLocked(full string, mode Mode, refused error) {
	e := r.persistent[full]
	e.pending--
	if refused == nil {
		e.armed, e.recursive = true, mode == Recursive
	}
	for w := range e.all() {
		if refused == nil {
			w.notify(Event{Type: Resync, Path: full})
			continue
		}
		w.finishLocked(refused)
		delete(e.users[w.mode], w)
	}
	r.settleLocked(full)
}
