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

// lateWatch is a watch that was set while reads were frozen: the change it waits for may have happened already.
type lateWatch struct {
	path     string
	zxid     int64 // of the frozen tree
	children bool
	missing  bool // the node did not exist in the frozen tree
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

// watchData sets a watch that fires once on a node, or with n nil on a missing one.
func (s *Server) watchData(c *conn, path string, n *node) {
	s.watches.data.add(path, c, watchStandard)
	if f := s.frozen(c); f != nil {
		s.watchLate(c, lateWatch{path: path, zxid: f.tree.zxid, missing: n == nil})
	}
}

// watchChildren sets a watch that fires once on the children of a node.
func (s *Server) watchChildren(c *conn, path string) {
	s.watches.children.add(path, c, watchStandard)
	if f := s.frozen(c); f != nil {
		s.watchLate(c, lateWatch{path: path, zxid: f.tree.zxid, children: true})
	}
}

// watchStaying sets a watch that stays. For a client whose reads are frozen, the changes since the freeze come after
// the watch, so their events wait for the thaw.
func (s *Server) watchStaying(c *conn, path string, mode watchMode) {
	isNew := !s.watches.data.has(path, c, mode)
	s.watches.addPersistent(path, c, mode)
	f := s.frozen(c)
	if f == nil || !isNew {
		return
	}
	if mode == watchPersistent {
		before, now := f.tree.lookup(path), s.tree.lookup(path)
		s.notifyChange(c, path, before, now)
		if before != nil && now != nil && before.czxid == now.czxid && before.pzxid != now.pzxid {
			s.notify(c, event{kind: eventChildrenChanged, path: path, acl: now.acl})
		}
		return
	}
	for _, path := range f.tree.pathsBelow(path, s.tree) {
		s.notifyChange(c, path, f.tree.lookup(path), s.tree.lookup(path))
	}
}

// notifyChange sends the events by which a node, or nil for none, has become another one.
func (s *Server) notifyChange(c *conn, path string, before, now *node) {
	isOther := before == nil || now == nil || before.czxid != now.czxid
	if before != nil && isOther {
		s.notify(c, event{kind: eventDeleted, path: path, acl: before.acl})
	}
	switch {
	case now == nil:
	case isOther:
		s.notify(c, event{kind: eventCreated, path: path, acl: now.acl})
	case before.mzxid != now.mzxid:
		s.notify(c, event{kind: eventDataChanged, path: path, acl: now.acl})
	}
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

func (s *Server) watchLate(c *conn, w lateWatch) {
	s.holdText(c, 1, len(w.path))
	c.late = append(c.late, w)
}

// notify sends e to the client of c unless the client may not read the node. While its reads are frozen, the event
// waits.
func (s *Server) notify(c *conn, e event) {
	if !allowed(e.acl, permRead, c.ids, &s.checks) {
		if s.checks < 0 {
			s.cut(c) // it may have to learn of the change, and does when it sets its watches again
		}
		return
	}
	if s.frozen(c) != nil {
		s.holdText(c, 1, len(e.path))
		c.held = append(c.held, e)
		return
	}
	s.reply(c, e.frame())
}

// catchUp delivers what was held back from c, and fires its watches whose changes preceded them.
func (s *Server) catchUp(c *conn) {
	held, late := c.held, c.late
	c.held, c.late = nil, nil
	for _, e := range held {
		s.holdText(c, -1, -len(e.path))
		s.reply(c, e.frame())
	}
	for _, w := range late {
		s.holdText(c, -1, -len(w.path))
		s.fireLate(c, w)
	}
}

// fireLate fires a watch of c if its change is over and nothing has fired it since.
func (s *Server) fireLate(c *conn, w lateWatch) {
	kind, due := w.due(s.tree.lookup(w.path))
	if !due {
		return
	}
	fromData := (!w.children || kind == eventDeleted) && s.watches.data.remove(w.path, c, watchStandard)
	fromChildren := (w.children || kind == eventDeleted) && s.watches.children.remove(w.path, c, watchStandard)
	if fromData || fromChildren {
		s.notify(c, event{kind: kind, path: w.path})
	}
}

// due returns the event that a watch has missed, if any, when its node is n by now.
func (w lateWatch) due(n *node) (eventKind, bool) {
	switch {
	case w.missing:
		return eventCreated, n != nil
	case n == nil:
		return eventDeleted, true
	case w.children:
		return eventChildrenChanged, n.pzxid > w.zxid
	default:
		return eventDataChanged, n.mzxid > w.zxid
	}
}
