// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

// Tx is a transaction while its function runs. It serves one goroutine.
type Tx struct {
	ctx      context.Context
	client   *framework.Framework
	cfg      config
	history  int64 // in which everything was read, see framework.Framework.History
	ended    bool
	conflict *conflictError // met by a read

	nodes   map[string]node            // as they were read
	lists   map[string]list            // the children of folders, as they were read
	folders map[string]*framework.Stat // of folders in which this transaction creates, as they were read
	writes  map[string]write           // to be applied

	above   map[string]bool // folders that looks include
	seen    look            // the last one
	probe   string          // how the names begin of the znodes by which the last commit has checked folders
	refused string          // the folder in which that was refused
	doubt   error           // of a commit whose outcome is unknown
}

// node is a znode as it was read. The zero value is one that does not exist.
type node struct {
	exists bool
	used   bool // the function knows more than that it exists
	data   []byte
	stat   framework.Stat
}

// list is the list of a folder's children.
type list struct {
	names []string
	stat  framework.Stat
}

// write is what a znode will be.
type write struct {
	exists    bool
	data      []byte
	created   bool // by this transaction, after the deletion of the znode that was read, if there was one
	ephemeral bool
}

// isEphemeral reports whether the znode can have no children. Servers show no owner of containers and of znodes with a
// time to live.
func isEphemeral(stat *framework.Stat) bool { return stat.EphemeralOwner != 0 }

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
	data, err := tx.existing("get", path)
	if _, written := tx.writes[path]; err == nil && !written {
		tx.use(path)
	}
	return data, err
}

// existing returns the data of a znode that exists, as the function sees it.
func (tx *Tx) existing(op, path string) ([]byte, error) {
	data, exists, err := tx.state(path)
	if err == nil && !exists {
		err = refused(op, path, framework.ErrNoNode)
	}
	return data, err
}

// use notes that the function knows the znode, and not only that it exists. So it must still be the same one
// when the transaction is applied.
func (tx *Tx) use(path string) {
	n := tx.nodes[path]
	n.used = true
	tx.nodes[path] = n
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
	if err := refuseServers(tx.client, framework.JoinPath(path, "any")); err != nil {
		return nil, err // its children could not be checked
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
	if _, err := tx.existing("set", path); err != nil {
		return err
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
	w, written := tx.writes[parent]
	base, err := tx.folder(parent)
	switch {
	case err != nil:
		return err
	case written && !w.exists, !written && base == nil:
		return refused("create", parent, framework.ErrNoNode)
	case w.created && w.ephemeral, !w.created && isEphemeral(base):
		return refused("create", parent, framework.ErrNoChildrenForEphemerals)
	}
	tx.writes[path] = write{exists: true, data: bytes.Clone(data), created: true, ephemeral: ephemeral}
	return nil
}

// folder returns the Stat of a folder as it was read, nil if there was none. That it exists needs no check: the
// creation in it shows that, unless [Tx.Delete] takes it back. If nothing can be created in it, the function learns of it, and it counts as a znode that was
// read.
func (tx *Tx) folder(path string) (*framework.Stat, error) {
	if stat := tx.folderAsRead(path); stat == nil || isEphemeral(stat) {
		found := map[string]*framework.Stat{path: nil}
		if _, isRead := tx.nodes[path]; !isRead {
			if err := tx.stats(found); err != nil {
				return nil, err
			}
		}
		if stat := found[path]; stat != nil && !isEphemeral(stat) {
			tx.folders[path] = stat
			return stat, nil
		}
		if err := tx.read(path); err != nil {
			return nil, err
		}
		if n := tx.nodes[path]; n.exists && isEphemeral(&n.stat) {
			tx.use(path)
		}
	}
	return tx.folderAsRead(path), nil
}

// folderAsRead returns the Stat of a folder, nil if there was none or it was not read.
func (tx *Tx) folderAsRead(path string) *framework.Stat {
	if n := tx.nodes[path]; n.exists {
		return &n.stat
	}
	return tx.folders[path]
}

// Delete deletes the znode. The error matches [framework.ErrNoNode] if there is none. Children that the transaction does
// not delete make the commit fail with [framework.ErrNotEmpty].
func (tx *Tx) Delete(path string) error {
	if _, err := tx.existing("delete", path); err != nil {
		return err
	}
	for child, w := range tx.writes {
		if w.exists && strings.HasPrefix(child, path+"/") {
			return refused("delete", path, framework.ErrNotEmpty)
		}
	}
	if !tx.nodes[path].exists {
		delete(tx.writes, path)        // only this transaction has created it
		return tx.read(parentOf(path)) // no creation shows any more that its folder exists
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
			return fmt.Errorf("txn: %w", err)
		}
		if err := refuseServers(tx.client, path); err != nil {
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

// read reads the znodes that were not read before, together.
func (tx *Tx) read(paths ...string) error {
	unknown := without(paths, tx.nodes)
	nodes := make([]node, len(unknown))
	missing := make([]bool, len(unknown))
	reads := make([]framework.Read, len(unknown))
	for i, path := range unknown {
		reads[i] = framework.ReadData(path, &nodes[i].data, framework.StoringStatIn(&nodes[i].stat), framework.StoringAbsenceIn(&missing[i]))
	}
	if err := tx.client.Pipeline(tx.ctx, reads...); err != nil {
		return err
	}
	for i, path := range unknown {
		if nodes[i].exists = !missing[i]; missing[i] {
			nodes[i] = node{}
		}
		tx.nodes[path] = nodes[i]
		if missing[i] && tx.folders[path] != nil { // Create has been told that it is there
			tx.conflict = conflict(path, errChanged)
		}
	}
	if tx.conflict != nil {
		return tx.conflict
	}
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

// list returns the children of a znode that exists at the server.
func (tx *Tx) list(path string) ([]string, error) {
	if known, ok := tx.lists[path]; ok {
		return known.names, nil
	}
	var l list
	var err error
	if n, known := tx.nodes[path]; !known || n.exists {
		l.names, err = tx.client.Children(tx.ctx, path, framework.StoringStatIn(&l.stat))
	} else {
		err = framework.ErrNoNode
	}
	switch {
	case err == nil:
		tx.lists[path] = l
		return l.names, nil
	case !errors.Is(err, framework.ErrNoNode):
		return nil, err
	case tx.nodes[path].exists || tx.folders[path] != nil:
		tx.conflict = conflict(path, err)
		return nil, tx.conflict
	}
	tx.nodes[path] = node{}
	return nil, refused("children", path, framework.ErrNoNode)
}

func parentOf(path string) string {
	parent, _ := framework.SplitPath(path)
	return parent
}

// serversNode is the tree of the servers themselves, in which nothing can be checked by a creation.
const serversNode = "/zookeeper"

// isServers reports whether the znode belongs to the servers.
func isServers(client *framework.Framework, path string) bool {
	full := client.FullPath(path)
	return full == serversNode || strings.HasPrefix(full, serversNode+"/")
}

// refuseServers returns an error for a znode of the servers, other than those that are always there.
func refuseServers(client *framework.Framework, path string) error {
	if !isServers(client, path) || slices.Contains([]string{"", "/config", "/quota"}, strings.TrimPrefix(client.FullPath(path), serversNode)) {
		return nil
	}
	return fmt.Errorf("txn: %w %q: nothing below %s can be checked, expected a path outside of it", framework.ErrInvalidPath, path, serversNode)
}
