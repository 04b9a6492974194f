// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"errors"
	"slices"

	"github.com/gocurator/curator/framework/internal/wire"
)

// resume shows what the server has, and opens the connection for calls, see "Histories" in the package comment. It takes a
// request without an effect, whose reply names the server's newest transaction. Callers hold dispatch. The exchange is
// complete, if there is one.
func (c *conn) resume(h Handshake) {
	c.enter(resuming)
	history := func(Reply) { c.compare(h) }
	switch {
	case c.behind, c.owner.seen.newest.Load() == 0 && c.owner.ephemerals.begin(h.SessionID, c.owner.seen.history.Load()):
		// The connect request could not name what the client has seen, so the server may be behind.
		c.askFirst(catchUp(), history)
	case c.owner.seen.newest.Load() != 0:
		c.askFirst(&Call{Op: wire.OpPing}, history)
	default:
		c.compare(h)
	}
}

// askFirst sends a request before all calls. The function gets the reply, unless the connection ends.
func (c *conn) askFirst(call *Call, answered func(Reply)) {
	call.OnDone = func(reply Reply, _ error) {
		if c.phase != ended && reply.Code != wire.CodeSASLRequired { // after which the server hangs up
			answered(reply)
		}
	}
	c.queue.Lock()
	c.pushLocked(&c.urgent, call)
	c.queue.Unlock()
	c.wakeWriter()
}

// compare compares what the server and the client know of the session, if that may differ.
func (c *conn) compare(h Handshake) {
	history := c.owner.seen.history.Load()
	// Whether the server may know the request: no caller can wait until it has told its version.
	if !c.owner.ephemerals.begin(h.SessionID, history) || c.version.hasRefused(wire.OpGetEphemerals, unknownVersion) {
		c.admit(h)
		return
	}
	e := wire.NewEncoder(wire.LengthSize + 1)
	e.String("/")
	c.askFirst(&Call{Op: wire.OpGetEphemerals, Body: e.Bytes(), MaxReply: maxDiscard}, func(reply Reply) {
		d := wire.NewDecoder(reply.Body)
		listed := d.Strings()
		switch {
		case reply.Code == wire.CodeUnimplemented:
			_ = c.noteTooOld(wire.OpGetEphemerals) // no caller waits for the error
		case reply.Code != 0, d.Err() != nil: // or the list was too long
		default:
			if ghosts := c.owner.ephemerals.compare(listed, history); len(ghosts) > 0 {
				c.giveUpSession(ghosts)
				return
			}
		}
		c.admit(h)
	})
}

var errRestored = errors.New("the servers were restored, and the session ends")

// maxGhosts bounds the paths in a log line.
const maxGhosts = 3

// giveUpSession ends the session at the server, which has znodes that the session had deleted. The client must stop to rely
// on it before the server can know of the end. The next connection begins another session.
func (c *conn) giveUpSession(ghosts []string) {
	c.owner.cfg.Logger.Warn("the servers have ephemeral znodes that this session had deleted: they were restored from a backup. The session ends",
		"server.address", c.to.String(), "count", len(ghosts), "paths", slices.Clone(ghosts[:min(len(ghosts), maxGhosts)]))
	c.owner.cfg.Events.Expired()
	c.askFirst(&Call{Op: wire.OpCloseSession}, func(Reply) {
		go c.fail(errRestored) // the server hangs up, too
	})
}
