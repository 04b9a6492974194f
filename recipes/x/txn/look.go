// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"errors"
	"maps"
	"slices"

	"github.com/gocurator/curator/framework"
)

var (
	errChanged    = errors.New("changed between two reads")
	errBegunAgain = errors.New("the servers may have begun again")
)

// look has the Stats of one look at all that a transaction has read; nil is the Stat of a missing znode. The server
// answers in this order.
type look struct {
	// before has the folders, and the znodes that were missing.
	before map[string]*framework.Stat

	// again has the folders once more, if nothing else shows that missing znodes were missing at one moment.
	again map[string]*framework.Stat

	// after has the znodes that existed, and the folders that were listed.
	after map[string]*framework.Stat
}

// stat returns the Stat of a folder.
func (l look) stat(path string) *framework.Stat {
	if stat := l.before[path]; stat != nil {
		return stat
	}
	return l.after[path]
}

// top returns the highest missing znode at or above a missing one, and the folder that it is missing in.
func (l look) top(path string) (top, above string) {
	for top, above = path, parentOf(path); l.before[above] == nil && above != "/"; {
		top, above = above, parentOf(above)
	}
	return top, above
}

// look reads the Stats of all that was read, and of the folders that it depends on. One request is enough, unless
// a folder has gone.
func (tx *Tx) look(again bool) (look, error) {
	for {
		l, err := tx.lookOnce(again)
		if err != nil {
			return look{}, err
		}
		wanted := len(tx.above)
		for path, n := range tx.nodes {
			if n.exists || path == "/" {
				continue
			}
			parent := parentOf(path)
			if l.before[parent] == nil {
				tx.lookAbove(parent)
			} else if isEphemeral(l.before[parent]) {
				tx.above[parentOf(parent)] = true
			}
		}
		switch {
		case l.isRootMissing(): // of a view whose namespace does not exist yet
			if err := tx.client.Mkdirs(tx.ctx, "/"); err != nil {
				return look{}, err
			}
		case len(tx.above) == wanted:
			return l, nil
		}
	}
}

func (l look) isRootMissing() bool {
	stat, wanted := l.before["/"]
	return wanted && stat == nil
}

// lookAbove makes looks include all folders above the path.
func (tx *Tx) lookAbove(path string) {
	for path != "/" {
		path = parentOf(path)
		tx.above[path] = true
	}
}

func (tx *Tx) lookOnce(again bool) (look, error) {
	l := look{make(map[string]*framework.Stat), make(map[string]*framework.Stat), make(map[string]*framework.Stat)}
	for path := range tx.above {
		l.before[path] = nil
	}
	for path, n := range tx.nodes {
		if n.exists {
			l.after[path] = nil
			continue
		}
		l.before[path] = nil
		if path != "/" {
			l.before[parentOf(path)] = nil
		}
	}
	if again {
		maps.Copy(l.again, l.before)
		for path := range tx.folders {
			l.after[path] = nil
		}
	} else {
		for _, path := range tx.identified() {
			l.before[parentOf(path)] = nil
		}
	}
	if tx.doubt != nil {
		for path := range tx.writes {
			l.before[parentOf(path)] = nil
		}
	}
	for path, list := range tx.lists {
		if l.after[path] = nil; isEphemeral(&list.stat) {
			l.before[parentOf(path)] = nil
		}
	}
	return l, tx.stats(l.before, l.again, l.after)
}

// stats reads the Stats of all keys of the maps, one map after the other and the parents before their children.
func (tx *Tx) stats(into ...map[string]*framework.Stat) error {
	var reads []framework.Read
	var done []func()
	for _, m := range into {
		for _, path := range slices.Sorted(maps.Keys(m)) {
			var stat *framework.Stat
			reads = append(reads, framework.ReadStat(path, &stat))
			done = append(done, func() { m[path] = stat })
		}
	}
	if err := tx.client.Pipeline(tx.ctx, reads...); err != nil {
		return err
	}
	for _, store := range done {
		store()
	}
	return nil
}

// compare returns a conflict if the look shows anything else than what was read.
func (tx *Tx) compare(seen look) error {
	if tx.client.History() != tx.history {
		return conflict("/", errBegunAgain) // numbers of other servers would be compared
	}
	for _, path := range slices.Sorted(maps.Keys(tx.nodes)) {
		n := tx.nodes[path]
		now := seen.after[path]
		if !n.exists {
			now = seen.before[path]
		}
		_, written := tx.writes[path]
		if n.exists != (now != nil) || n.exists && (n.stat.Czxid != now.Czxid || (n.used || written) && n.stat.Mzxid != now.Mzxid) {
			return conflict(path, errChanged)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(tx.lists)) {
		l := tx.lists[path]
		if !isSameFolder(&l.stat, seen.after[path]) {
			return conflict(path, errChanged)
		}
	}
	return nil
}

// verify checks that all that the function has met was true at one moment, for a transaction that applies nothing: it
// looks once more. What existed, and is the same now, was so all the time in between. What is missing was missing at the
// beginning of the look, if the folders above are the same before and after. So all was true then.
func (tx *Tx) verify() error {
	if len(tx.nodes)+len(tx.lists)+len(tx.folders) <= 1 {
		return nil // one read is one moment
	}
	seen, err := tx.look(true)
	if err != nil {
		return err
	}
	if err := tx.compare(seen); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(tx.folders)) { // no creation in it is applied, so none shows that it was there
		if now := seen.after[path]; now == nil || now.Czxid != tx.folders[path].Czxid {
			return conflict(path, errChanged)
		}
	}
	for path, n := range tx.nodes {
		if n.exists || path == "/" {
			continue
		}
		_, above := seen.top(path)
		if !isSameFolder(seen.before[above], seen.again[above]) {
			return &crowdedError{above, errChanged}
		}
	}
	return nil
}

// isSameFolder reports whether a folder is the same one and has the same children. A number alone does not show
// that: ZooKeeper does not change Pzxid with a creation once the sequential numbers are exhausted.
func isSameFolder(a, b *framework.Stat) bool {
	return a != nil && b != nil && a.Czxid == b.Czxid && a.Pzxid == b.Pzxid && a.Cversion == b.Cversion && a.NumChildren == b.NumChildren
}
