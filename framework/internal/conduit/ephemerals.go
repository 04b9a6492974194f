// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework/internal/wire"
)

const (
	// maxEphemerals bounds the paths that are remembered. Other clients may delete any number of znodes
	// of the session unseen.
	maxEphemerals = 1 << 17

	sequenceDigits = 10 // behind the path of a request for a sequential znode
)

// ephemerals are the ephemeral znodes that the session may have, as far as the replies and events of all
// its connections show. Restored servers may have others, which were deleted since their backup.
type ephemerals struct {
	mu      sync.Mutex
	session int64
	history int64 // in which the servers have no others
	used    bool  // the session has created one
	tooMany bool  // they are not remembered any more

	// paths has how many requests are in doubt that may have created a znode, 0 for a znode that was
	// created. A sequential znode in doubt has the path of its request, without the number.
	paths map[string]int
}

// begin notes that a connection has this session. It reports whether the servers may have other znodes of
// the session than the client knows: the session has created some, and another history has begun.
func (e *ephemerals) begin(session, history int64) (suspect bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session != session {
		e.session, e.history, e.used, e.tooMany = session, history, false, false
		e.paths = make(map[string]int)
	}
	return e.used && e.history != history
}

// answered notes what a request of the session has created and deleted.
func (e *ephemerals) answered(call *Call, reply Reply) {
	switch reply.Code {
	case 0:
	case wire.CodeNoNode:
		if call.Op == wire.OpDelete {
			e.deleted(wire.NewDecoder(call.Body).String())
		}
		return
	case wire.CodeConnectionLoss, wire.CodeOperationTimeout: // the server does not know either
		e.unanswered(call)
		return
	default:
		return
	}
	request, result := wire.NewDecoder(call.Body), wire.NewDecoder(reply.Body)
	switch call.Op {
	case wire.OpCreate2:
		if mode := modeOf(call); mode.isEphemeral() {
			e.created(result.String())
		}
	case wire.OpDelete:
		e.deleted(request.String())
	case wire.OpMulti:
		eachOperation(request, func(op int32, path string, mode createMode) bool {
			if result.MultiResult() {
				return false // as a whole
			}
			e.applied(op, path, mode, result)
			return result.Err() == nil
		})
	}
}

// applied notes an operation of a transaction, and reads its result.
func (e *ephemerals) applied(op int32, path string, mode createMode, result *wire.Decoder) {
	switch {
	case op == wire.OpDelete:
		e.deleted(path)
	case op == wire.OpSetData:
		result.Stat()
	case isCreate(op):
		created := result.String()
		if op != wire.OpCreate {
			result.Stat()
		}
		if mode.isEphemeral() {
			e.created(created)
		}
	}
}

// unanswered notes what a request may have created. What it may have deleted may still be there.
func (e *ephemerals) unanswered(call *Call) {
	doubt := func(path string, mode createMode) {
		if mode.isEphemeral() {
			path = strings.Clone(path) // the request may have much data
			e.change(func() { e.used, e.paths[path] = true, e.paths[path]+1 })
		}
	}
	request := wire.NewDecoder(call.Body)
	switch call.Op {
	case wire.OpCreate2:
		doubt(request.String(), modeOf(call))
	case wire.OpMulti:
		eachOperation(request, func(_ int32, path string, mode createMode) bool {
			doubt(path, mode)
			return true
		})
	}
}

func (e *ephemerals) created(path string) {
	e.change(func() { e.used, e.paths[path] = true, 0 })
}

// deleted notes that there is no znode of that path.
func (e *ephemerals) deleted(path string) {
	e.change(func() {
		if _, known := e.paths[path]; known {
			delete(e.paths, path)
			return
		}
		// Its creation may have been in doubt until now.
		request := path[:max(0, len(path)-sequenceDigits)]
		if n := e.paths[request]; n > 1 {
			e.paths[request] = n - 1
		} else if n == 1 {
			delete(e.paths, request)
		}
	})
}

func (e *ephemerals) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tooMany || e.session == 0 {
		return
	}
	f()
	if len(e.paths) > maxEphemerals {
		e.tooMany, e.paths = true, nil
	}
}

// compare takes the list of the servers, and returns the znodes that the client knows to be deleted.
func (e *ephemerals) compare(listed []string, history int64) (ghosts []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tooMany {
		return nil
	}
	isKnown := func(path string) bool {
		_, known := e.paths[path]
		return known || e.paths[path[:max(0, len(path)-sequenceDigits)]] > 0
	}
	ghosts = slices.DeleteFunc(listed, isKnown)
	if len(ghosts) == 0 {
		e.history = history
	}
	return ghosts
}

// createMode is the last field of a request that creates a znode in an ordinary mode.
type createMode int32

func (m createMode) isEphemeral() bool { return m == 1 || m == 3 }

func modeOf(call *Call) createMode {
	d := wire.NewDecoder(call.Body[max(0, len(call.Body)-wire.LengthSize):])
	return createMode(d.Int32())
}

func isCreate(op int32) bool {
	return op == wire.OpCreate || op == wire.OpCreateContainer || op == wire.OpCreateTTL
}

// eachOperation visits the operations of a transaction until f returns false. The mode is that of a create.
func eachOperation(d *wire.Decoder, f func(op int32, path string, mode createMode) bool) {
	for d.Len() > 0 {
		op := d.Int32()
		if end := d.Bool(); end {
			return
		}
		d.Int32()
		path, mode := d.String(), createMode(0)
		switch {
		case isCreate(op):
			d.Buffer()
			d.ACL()
			mode = createMode(d.Int32())
			if op == wire.OpCreateTTL {
				d.Int64()
			}
		case op == wire.OpSetData:
			d.Buffer()
			d.Int32()
		default: // a delete or a check
			d.Int32()
		}
		if d.Err() != nil || !f(op, path, mode) {
			return
		}
	}
}
