// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

// Tx is a transaction while its function runs. It serves one goroutine.
type Tx struct {
	ctx      context.Context
	client   *framework.Framework
	cfg      config
	history  int64              // in which everything was read, see framework.Framework.History
	session  *framework.Session // of the first read, nil for the client's first one
	ended    bool
	conflict *conflictError // met by a read

	nodes   map[string]node     // as they were read
	folders map[string]folder   // as they were before anything in them was read
	lists   map[string][]string // the children of folders, as they were read
	writes  map[string]write    // to be applied
}

// node is a znode as it was read. The zero value is one that does not exist.
type node struct {
	exists bool
	data   []byte
	stat   framework.Stat
}

// folder is a znode whose children were read. The zero value is one that does not exist.
type folder struct {
	exists bool
	stat   framework.Stat
}

// write is what a znode will be.
type write struct {
	exists    bool
	data      []byte
	created   bool // by this transaction, after the deletion of the znode that was read, if there was one
	ephemeral bool
}

// creations returns how many children were created in the folder so far. The server numbers sequential
// znodes by it. A Stat has the number of changes instead: creations and deletions.
func (f folder) creations() uint32 {
	return (uint32(f.stat.Cversion) + uint32(f.stat.NumChildren)) / 2
}

// ephemeral reports whether the folder is an ephemeral znode, which can have no children. The owners of
// containers and of znodes with a time to live are marks, see ZooKeeper's EphemeralType.
func (f folder) ephemeral() bool {
	owner := f.stat.EphemeralOwner
	return owner != 0 && owner != math.MinInt64 && uint64(owner)>>56 != 0xff
}

// Context returns the context of [Do].
func (tx *Tx) Context() context.Context { return tx.ctx }

// Prefetch reads the znodes together, so that Get and Exists find them in memory. Znodes that do not exist are no error.
func (tx *Tx) Prefetch(paths ...string) error {
	if err := tx.usable(paths...); err != nil {
		return err
	}
	return tx.read(paths...)
}

// Get returns the data of the znode. The error matches [framework.ErrNoNode] if there is none. The caller may change the data.
func (tx *Tx) Get(path string) ([]byte, error) {
	data, exists, err := tx.state(path)
	if err == nil && !exists {
		err = refused("get", path, framework.ErrNoNode)
	}
	return data, err
}

// Exists reports whether the znode exists.
func (tx *Tx) Exists(path string) (bool, error) {
	_, exists, err := tx.state(path)
	return exists, err
}

// Children returns the names of the znode's children, sorted. The error matches [framework.ErrNoNode] if there is no such znode. The
// commit checks each child, so the size of the transaction grows with their number.
func (tx *Tx) Children(path string) ([]string, error) {
	if err := tx.usable(path); err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	w, written := tx.writes[path]
	if written && !w.exists {
		return nil, refused("children", path, framework.ErrNoNode)
	}
	if !w.created {
		read, err := tx.list(path)
		if err != nil {
			return nil, err
		}
		for _, name := range read {
			names[name] = true
		}
	}
	for child, w := range tx.writes {
		if parent, name := framework.SplitPath(child); parent == path && child != "/" {
			names[name] = w.exists
		}
	}
	maps.DeleteFunc(names, func(_ string, exists bool) bool { return !exists })
	return slices.Sorted(maps.Keys(names)), nil
}

// Set sets the data of the znode. The error matches [framework.ErrNoNode] if there is none. A znode that was not read is read first.
func (tx *Tx) Set(path string, data []byte) error {
	_, exists, err := tx.state(path)
	switch {
	case err != nil:
		return err
	case !exists:
		return refused("set", path, framework.ErrNoNode)
	}
	w := tx.writes[path]
	w.exists, w.data = true, bytes.Clone(data)
	tx.writes[path] = w
	return nil
}

// Create creates a persistent znode. The error matches [framework.ErrNodeExists] if there is one already, and [framework.ErrNoNode]
// if its parent is missing.
func (tx *Tx) Create(path string, data []byte) error { return tx.create(path, data, false) }

// CreateEphemeral is [Tx.Create] of a znode that lives as long as the client's session.
func (tx *Tx) CreateEphemeral(path string, data []byte) error { return tx.create(path, data, true) }

func (tx *Tx) create(path string, data []byte, ephemeral bool) error {
	_, exists, err := tx.state(path)
	switch {
	case err != nil:
		return err
	case exists:
		return refused("create", path, framework.ErrNodeExists)
	}
	parent := parentOf(path)
	base := tx.folders[parent] // counted, unless the transaction has deleted a znode here
	w, written := tx.writes[parent]
	switch {
	case written && !w.exists, !written && !base.exists && !tx.nodes[path].exists:
		return refused("create", parent, framework.ErrNoNode)
	case w.created && w.ephemeral, !w.created && base.ephemeral():
		return refused("create", parent, framework.ErrNoChildrenForEphemerals)
	}
	tx.writes[path] = write{exists: true, data: bytes.Clone(data), created: true, ephemeral: ephemeral}
	return nil
}

// Delete deletes the znode. The error matches [framework.ErrNoNode] if there is none. Children that the transaction does
// not delete make the commit fail with [framework.ErrNotEmpty].
func (tx *Tx) Delete(path string) error {
	_, exists, err := tx.state(path)
	switch {
	case err != nil:
		return err
	case !exists:
		return refused("delete", path, framework.ErrNoNode)
	}
	for child, w := range tx.writes {
		if w.exists && strings.HasPrefix(child, path+"/") {
			return refused("delete", path, framework.ErrNotEmpty)
		}
	}
	if !tx.nodes[path].exists {
		delete(tx.writes, path) // only this transaction has created it
		return nil
	}
	tx.writes[path] = write{}
	return nil
}

// refused is an error that a server would have returned.
func refused(op, path string, err error) error {
	return &framework.OpError{Op: op, Path: path, Err: err}
}

// usable returns an error for a Tx after its end, and for bad paths.
func (tx *Tx) usable(paths ...string) error {
	if tx.ended {
		return errEnded
	}
	for _, path := range paths {
		if err := framework.ValidatePath(path); err != nil {
			return err
		}
	}
	if tx.conflict != nil {
		return tx.conflict
	}
	return nil
}

// state returns the znode as the function sees it.
func (tx *Tx) state(path string) (data []byte, exists bool, err error) {
	if err := tx.usable(path); err != nil {
		return nil, false, err
	}
	if err := tx.read(path); err != nil {
		return nil, false, err
	}
	if w, ok := tx.writes[path]; ok {
		return bytes.Clone(w.data), w.exists, nil
	}
	n := tx.nodes[path]
	return bytes.Clone(n.data), n.exists, nil
}

// read reads the znodes that were not read before.
func (tx *Tx) read(paths ...string) error {
	unknown := without(paths, tx.nodes)
	if !tx.cfg.versionsOnly {
		if err := tx.count(parents(unknown)...); err != nil {
			return err
		}
	}
	found, err := tx.get(unknown)
	if err != nil {
		return err
	}
	// Only the count of a folder shows that a znode is still missing, so it must be older than the read.
	var again []string
	for _, path := range unknown {
		if _, counted := tx.folders[parentOf(path)]; !found[path].exists && !counted && path != "/" {
			again = append(again, path)
		}
	}
	if err := tx.count(parents(again)...); err != nil {
		return err
	}
	refound, err := tx.get(again)
	if err != nil {
		return err
	}
	maps.Copy(found, refound)
	maps.Copy(tx.nodes, found)
	return nil
}

// without returns the paths that are no keys of known, each once.
func without[V any](paths []string, known map[string]V) []string {
	list, listed := make([]string, 0, len(paths)), make(map[string]bool, len(paths))
	for _, path := range paths {
		if _, ok := known[path]; !ok && !listed[path] {
			list, listed[path] = append(list, path), true
		}
	}
	return list
}

// get reads znodes together.
func (tx *Tx) get(paths []string) (map[string]node, error) {
	nodes := make([]node, len(paths))
	missing := make([]bool, len(paths))
	reads := make([]framework.Read, len(paths))
	for i, path := range paths {
		reads[i] = framework.ReadData(path, &nodes[i].data, framework.StoringStatIn(&nodes[i].stat), framework.StoringAbsenceIn(&missing[i]))
	}
	if err := tx.client.Pipeline(tx.ctx, reads...); err != nil {
		return nil, err
	}
	found := make(map[string]node, len(paths))
	for i, path := range paths {
		if missing[i] {
			nodes[i] = node{}
		}
		nodes[i].exists = !missing[i]
		found[path] = nodes[i]
	}
	return found, nil
}

// count reads how many znodes were created in these folders, where that is unknown. It must come before all other reads
// in a folder, or the transaction would miss a creation between the two reads.
func (tx *Tx) count(paths ...string) error {
	unknown := without(paths, tx.folders)
	found, err := tx.stats(unknown)
	if err != nil {
		return err
	}
	for i, path := range unknown {
		if found[i] == nil {
			if found[i], err = tx.countMissing(path); err != nil {
				return err
			}
		}
		if found[i] == nil {
			tx.folders[path] = folder{}
			continue
		}
		tx.folders[path] = folder{exists: true, stat: *found[i]}
	}
	return nil
}

// countMissing counts the creations above a folder that is missing, and reads its Stat again.
func (tx *Tx) countMissing(path string) (*framework.Stat, error) {
	if path == "/" { // of a view whose namespace does not exist yet
		if err := tx.client.Mkdirs(tx.ctx, "/"); err != nil {
			return nil, err
		}
	} else if err := tx.count(parentOf(path)); err != nil {
		return nil, err
	}
	found, err := tx.stats([]string{path})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// stats reads Stats together; nil is the Stat of a missing znode.
func (tx *Tx) stats(paths []string) ([]*framework.Stat, error) {
	stats := make([]*framework.Stat, len(paths))
	reads := make([]framework.Read, len(paths))
	for i, path := range paths {
		reads[i] = framework.ReadStat(path, &stats[i])
	}
	return stats, tx.client.Pipeline(tx.ctx, reads...)
}

// list returns the children of a znode that exists at the server.
func (tx *Tx) list(path string) ([]string, error) {
	if names, ok := tx.lists[path]; ok {
		return names, nil
	}
	if err := tx.count(path); err != nil {
		return nil, err
	}
	if !tx.folders[path].exists {
		return nil, refused("children", path, framework.ErrNoNode)
	}
	names, err := tx.client.Children(tx.ctx, path)
	if errors.Is(err, framework.ErrNoNode) {
		tx.conflict = conflict(path, err)
		return nil, tx.conflict
	}
	if err == nil {
		tx.lists[path] = names
	}
	return names, err
}

func parentOf(path string) string {
	parent, _ := framework.SplitPath(path)
	return parent
}

// parents returns the folders of the znodes. The root has none: it cannot be created again.
func parents(paths []string) []string {
	folders := make([]string, 0, len(paths))
	for _, path := range paths {
		if path != "/" {
			folders = append(folders, parentOf(path))
		}
	}
	return folders
}
