// SPDX-License-Identifier: Apache-2.0

package zkserver

import "strings"

// eventKind is the type of a watch event (Watcher.Event.EventType).
type eventKind int32

const (
	eventCreated         eventKind = 1
	eventDeleted         eventKind = 2
	eventDataChanged     eventKind = 3
	eventChildrenChanged eventKind = 4
)

// event is a change that watches may be waiting for. acl is the node's: a client that may not read the node gets
// no event.
type event struct {
	kind eventKind
	path string
	acl  []aclEntry
}

// notificationXid marks a frame that answers no request.
const notificationXid = -1

// stateConnected is the only client state that events of a server carry (KeeperState.SyncConnected).
const stateConnected = 3

// frame is e as it goes to a client.
func (e event) frame() []byte {
	var out encoder
	out.beginReply()
	out.int32(int32(e.kind))
	out.int32(stateConnected)
	out.string(e.path)
	return out.endReply(notificationXid, -1, codeOK)
}

// watchMode is a set: a connection may have several kinds of watch on one path.
type watchMode uint8

const (
	watchStandard   watchMode = 1 << iota // fires once
	watchPersistent                       // stays
	watchRecursive                        // stays, and hears of all nodes below
)

// watcher is a connection, as watches know it.
type watcher interface {
	holdText(entries, text int) // counts the memory that watches take
	notify(e event)
	sessionID() int64
}

// watches are the two tables of ZooKeeper. exists and getData watch in data, getChildren in children. A persistent
// watch is in both; a recursive one is in data alone, because children count as nodes of their own.
type watches struct {
	data, children watchTable
}

func newWatches() *watches { return &watches{data: newWatchTable(), children: newWatchTable()} }

// count is the number of pairs of path and connection in each table, as the key zk_watch_count of mntr.
func (w *watches) count() int {
	return w.data.count() + w.children.count()
}

// concerns reports whether watches in a table wait for events of a kind.
func (w *watches) concerns(table *watchTable, kind eventKind) bool {
	return kind == eventDeleted || (table == &w.children) == (kind == eventChildrenChanged)
}

// fire delivers e to every connection that waits for it, once each.
func (w *watches) fire(e event) {
	var told map[watcher]struct{}
	for _, table := range []*watchTable{&w.data, &w.children} {
		if w.concerns(table, e.kind) {
			told = table.trigger(e.path, told)
		}
	}
	for c := range told {
		c.notify(e)
	}
}

// addPersistent sets a watch that stays.
func (w *watches) addPersistent(path string, c watcher, mode watchMode) {
	w.data.add(path, c, mode)
	if mode == watchPersistent {
		w.children.add(path, c, mode)
	}
}

// drop forgets all watches of a connection.
func (w *watches) drop(c watcher) {
	w.data.drop(c)
	w.children.drop(c)
}

// watchTable holds watches by path and by connection, so a change and a lost connection both find their watches.
type watchTable struct {
	byPath    map[string]map[watcher]struct{}
	byConn    map[watcher]map[string]watchMode
	recursive int // how many recursive watches there are; without any, no ancestors need to be looked at
}

func newWatchTable() watchTable {
	return watchTable{
		byPath: make(map[string]map[watcher]struct{}),
		byConn: make(map[watcher]map[string]watchMode),
	}
}

func (t *watchTable) count() int {
	total := 0
	for _, paths := range t.byConn {
		total += len(paths)
	}
	return total
}

// has reports whether c has a watch of one of the modes on path.
func (t *watchTable) has(path string, c watcher, mode watchMode) bool {
	return t.byConn[c][path]&mode != 0
}

func (t *watchTable) add(path string, c watcher, mode watchMode) {
	if t.byPath[path] == nil {
		t.byPath[path] = make(map[watcher]struct{})
	}
	if t.byConn[c] == nil {
		t.byConn[c] = make(map[string]watchMode)
	}
	if _, old := t.byPath[path][c]; !old {
		c.holdText(1, len(path))
	}
	t.byPath[path][c] = struct{}{}
	if mode&watchRecursive&^t.byConn[c][path] != 0 {
		t.recursive++
	}
	t.byConn[c][path] |= mode
}

// remove takes the modes off c's watch on path and reports whether it had any of them.
func (t *watchTable) remove(path string, c watcher, mode watchMode) bool {
	had := t.byConn[c][path]
	if had&mode == 0 {
		return false
	}
	if had&mode&watchRecursive != 0 {
		t.recursive--
	}
	if left := had &^ mode; left != 0 {
		t.byConn[c][path] = left
		return true
	}
	c.holdText(-1, -len(path))
	if delete(t.byConn[c], path); len(t.byConn[c]) == 0 {
		delete(t.byConn, c)
	}
	if delete(t.byPath[path], c); len(t.byPath[path]) == 0 {
		delete(t.byPath, path)
	}
	return true
}

func (t *watchTable) drop(c watcher) {
	for path := range t.byConn[c] {
		t.remove(path, c, watchStandard|watchPersistent|watchRecursive)
	}
}

// trigger adds the connections that watch path, or an ancestor of it recursively, and takes off the watches that
// fire once.
func (t *watchTable) trigger(path string, found map[watcher]struct{}) map[watcher]struct{} {
	note := func(c watcher) {
		if found == nil {
			found = make(map[watcher]struct{})
		}
		found[c] = struct{}{}
	}
	for c := range t.byPath[path] {
		note(c)
		t.remove(path, c, watchStandard)
	}
	if t.recursive == 0 {
		return found
	}
	for path != rootPath {
		path = canonical(path[:strings.LastIndexByte(path, '/')])
		for c := range t.byPath[path] {
			if t.has(path, c, watchRecursive) {
				note(c)
			}
		}
	}
	return found
}
