// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"slices"
	"strings"
)

// freeze is what the clients of one session, or of all (id 0), see of the tree until the freeze is lifted.
type freeze struct {
	session int64
	tree    *tree
}

// FreezeReads makes all reads of one session, or with id 0 of all sessions, see the data of this moment until thaw
// is called. Writes are applied and answered as usual. So a session can be shown outdated data, such as a node
// whose owner has expired. A sync does not help.
//
// This is what a client sees of a follower that lags behind. Watch events are held back and delivered by thaw,
// along with the events of changes that had already happened when a watch was set.
//
// FreezeReads copies the tree. The freeze holds across reconnects of the session. Calling thaw again does nothing.
// Of several freezes of one session the oldest counts.
func (s *Server) FreezeReads(sessionID int64) (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(sessionID, "FreezeReads")
	f := &freeze{session: sessionID, tree: s.tree.snapshot()}
	s.freezes = append(s.freezes, f)
	return s.takeBack(sessionID, "FreezeReads: thaw", func() { s.thaw(f) })
}

func (s *Server) thaw(f *freeze) {
	s.freezes = slices.DeleteFunc(s.freezes, func(other *freeze) bool { return other == f })
	if s.run == nil {
		return
	}
	for c := range s.run.conns {
		if c.attached && s.frozen(c) == nil {
			s.catchUp(c)
		}
	}
}

// frozen returns the freeze that c is under, or nil.
func (s *Server) frozen(c *conn) *freeze {
	if c.cutOff != nil {
		return c.cutOff
	}
	for _, f := range s.freezes {
		if f.session == 0 || f.session == c.session.id {
			return f
		}
	}
	return nil
}

// view is the tree that c reads.
func (s *Server) view(c *conn) *tree {
	if f := s.frozen(c); f != nil {
		return f.tree
	}
	return s.tree
}

// watchOnce sets a watch in a table that fires once. For a client whose reads are frozen, a change since the freeze comes
// after the watch, so its event waits for the thaw.
func (s *Server) watchOnce(c *conn, path string, table *watchTable) {
	for _, e := range s.missed(c, path) {
		if !s.watches.concerns(table, e.kind) {
			continue
		}
		isHeld := func(other event) bool { return other.kind == e.kind && other.path == path }
		if !slices.ContainsFunc(c.held, isHeld) { // by another watch on the path
			c.notify(e)
		}
		return
	}
	table.add(path, c, watchStandard)
}

// watchStaying sets a watch that stays. The events of what a client does not see yet wait for the thaw.
func (s *Server) watchStaying(c *conn, path string, mode watchMode) {
	isNew := !s.watches.data.has(path, c, mode)
	s.watches.addPersistent(path, c, mode)
	f := s.frozen(c)
	if f == nil || !isNew {
		return
	}
	paths := []string{path}
	if mode == watchRecursive {
		paths = f.tree.pathsBelow(path, s.tree)
	}
	for _, path := range paths {
		for _, e := range s.missed(c, path) {
			if mode == watchPersistent || e.kind != eventChildrenChanged {
				c.notify(e)
			}
		}
	}
}

// missed returns the events of a node by which the view of a client becomes the present one.
func (s *Server) missed(c *conn, path string) (events []event) {
	before, now := s.view(c).lookup(path), s.tree.lookup(path)
	isOther := before == nil || now == nil || before.czxid != now.czxid
	if before != nil && isOther {
		events = append(events, event{kind: eventDeleted, path: path, acl: before.acl})
	}
	switch {
	case now == nil:
		return events
	case isOther:
		return append(events, event{kind: eventCreated, path: path, acl: now.acl})
	case before.mzxid != now.mzxid:
		events = append(events, event{kind: eventDataChanged, path: path, acl: now.acl})
	}
	if before.pzxid != now.pzxid {
		events = append(events, event{kind: eventChildrenChanged, path: path, acl: now.acl})
	}
	return events
}

// pathsBelow returns a path and all below it that either tree has, parents first.
func (t *tree) pathsBelow(root string, other *tree) []string {
	var all []string
	for _, nodes := range []map[string]*node{t.nodes, other.nodes} {
		for path := range nodes {
			if path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/") {
				all = append(all, path)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// notify sends e to the client of c unless the client may not read the node. While its reads are frozen, the event
// waits.
func (c *conn) notify(e event) {
	s := c.srv
	if !allowed(e.acl, permRead, c.ids, &s.checks) {
		if s.checks < 0 {
			s.cut(c) // it may have to learn of the change, and does when it sets its watches again
		}
		return
	}
	if s.frozen(c) != nil {
		c.holdText(1, len(e.path))
		c.held = append(c.held, e)
		return
	}
	s.reply(c, e.frame())
}

// catchUp delivers what was held back from c.
func (s *Server) catchUp(c *conn) {
	held := c.held
	c.held = nil
	for _, e := range held {
		c.holdText(-1, -len(e.path))
		s.reply(c, e.frame())
	}
}

// isStuck reports whether a request on a connection that is cut off gets no answer. Answers come in the order of
// requests, so a missing one holds back all after it.
func (c *conn) isStuck(op OpCode) bool {
	if c.cutOff == nil {
		return false
	}
	if op.is(forLeader) || op == OpCloseSession {
		c.stuck = true
	}
	return c.stuck
}
