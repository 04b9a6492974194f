// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// probePrefix is the beginning of the names of the znodes that check how many znodes were created in a folder.
const probePrefix = "_txn-"

var (
	errChanged    = errors.New("changed between two reads")
	errBegunAgain = errors.New("the servers may have begun again")

	errVersionExhausted = errors.New("the znode has been written 2^32 - 1 times, it must be deleted before it is changed again")
)

// commit applies the writes on the condition that all that was read is still true.
func (tx *Tx) commit() error {
	if tx.cfg.lease != nil {
		if err := tx.cfg.lease.Err(); err != nil {
			return err
		}
	}
	ops, err := tx.operations()
	if err != nil {
		return err
	}
	// In a later session the servers may be restored ones, where other data has these versions.
	err = attempt.Conditional(func() error {
		return tx.client.Retry(tx.ctx, func(ctx context.Context) error {
			_, err := tx.client.Transact(ctx, ops...)
			return err
		}, attempt.InSession(tx.client, tx.session))
	})
	if attempt.NotSent(err) {
		return conflict("/", err)
	}
	return tx.outcome(err)
}

// operations returns the checks and then the writes. The checks come first, because the writes of a transaction
// change what they check.
func (tx *Tx) operations() ([]framework.Op, error) {
	var ops []framework.Op
	if tx.cfg.lease != nil {
		ops = append(ops, framework.CheckOp(tx.cfg.lease.Path(), framework.AnyVersion))
	}
	ops = append(ops, tx.folderChecks()...)
	for _, path := range slices.Sorted(maps.Keys(tx.nodes)) {
		n := tx.nodes[path]
		if _, written := tx.writes[path]; n.exists && !written {
			ops = append(ops, framework.CheckOp(path, n.stat.Version))
		}
		if n.exists && n.stat.Version == framework.AnyVersion {
			return nil, fmt.Errorf("%s: %w", path, errVersionExhausted)
		}
	}
	var deletes, others []framework.Op
	for _, path := range slices.Sorted(maps.Keys(tx.writes)) {
		w, version := tx.writes[path], framework.WithVersion(tx.nodes[path].stat.Version)
		if tx.nodes[path].exists && (w.created || !w.exists) {
			deletes = append(deletes, framework.DeleteOp(path, version))
		}
		switch {
		case w.created && w.ephemeral:
			others = append(others, framework.CreateOp(path, w.data, framework.WithMode(framework.Ephemeral)))
		case w.created:
			others = append(others, framework.CreateOp(path, w.data))
		case w.exists:
			others = append(others, framework.SetDataOp(path, w.data, version))
		}
	}
	slices.Reverse(deletes) // children before their parents
	return slices.Concat(ops, deletes, others), nil
}

// folderChecks checks that nothing was created in the folders that were read from, and that listed children are
// still there. Without creations, a znode that was missing is still missing, and a znode that exists is the
// same znode.
func (tx *Tx) folderChecks() (ops []framework.Op) {
	for _, path := range slices.Sorted(maps.Keys(tx.folders)) {
		switch f := tx.folders[path]; {
		case !f.exists: // the count of its own folder shows that
		case f.ephemeral():
			ops = append(ops, framework.CheckOp(path, framework.AnyVersion))
		default:
			prefix := framework.JoinPath(path, probePrefix)
			ops = append(ops,
				framework.CreateOp(prefix, nil, framework.WithMode(framework.PersistentSequential)),
				framework.DeleteOp(fmt.Sprintf("%s%010d", prefix, f.creations())))
		}
		for _, name := range tx.lists[path] {
			child := framework.JoinPath(path, name)
			if !tx.nodes[child].exists { // otherwise it is checked, or written on its version
				ops = append(ops, framework.CheckOp(child, framework.AnyVersion))
			}
		}
	}
	return ops
}

// outcome distinguishes a conflict from other errors of a commit.
func (tx *Tx) outcome(err error) error {
	var op *framework.OpError
	switch {
	case err == nil, framework.OutcomeUnknown(err), !errors.As(err, &op):
		return err
	case tx.cfg.lease != nil && op.Path == tx.cfg.lease.Path():
		if ended := tx.cfg.lease.Err(); ended != nil {
			return ended
		}
		return fmt.Errorf("the lock node of %s is missing, or this client names it otherwise: %w", tx.cfg.lease, err)
	case attempt.Overtaken(err):
		path, _, _ := strings.Cut(op.Path, "/"+probePrefix)
		return conflict(max(path, "/"), err)
	default:
		return err
	}
}

// verify checks that all that was read was true at one moment, for a transaction that writes nothing. It reads
// everything once more. If nothing has changed until then, all results were true when the first reads had
// ended.
func (tx *Tx) verify() error {
	if len(tx.nodes)+len(tx.lists) <= 1 {
		return nil // one read is one moment
	}
	nodes := slices.Sorted(maps.Keys(tx.nodes))
	// Of the folders only those matter in which something was missing, or that were listed.
	var folders []string
	for _, path := range slices.Sorted(maps.Keys(tx.folders)) {
		_, listed := tx.lists[path]
		if listed || slices.ContainsFunc(nodes, func(n string) bool { return !tx.nodes[n].exists && parentOf(n) == path }) {
			folders = append(folders, path)
		}
	}
	found, err := tx.stats(slices.Concat(nodes, folders))
	if err != nil {
		return err
	}
	for i, path := range nodes {
		n, now := tx.nodes[path], found[i]
		if n.exists != (now != nil) || n.exists && (n.stat.Czxid != now.Czxid || n.stat.Mzxid != now.Mzxid) {
			return conflict(path, errChanged)
		}
	}
	for i, path := range folders {
		f, now := tx.folders[path], found[len(nodes)+i]
		if f.exists != (now != nil) || f.exists && (f.stat.Czxid != now.Czxid || f.stat.Pzxid != now.Pzxid) {
			return conflict(path, errChanged)
		}
	}
	return nil
}
