// SPDX-License-Identifier: Apache-2.0

package txn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

const (
	// probePrefix is the beginning of the names of the znodes that check how many znodes were created in a folder.
	probePrefix = "_txn-"

	// maxCreations is how many creations a folder may have had before a check, which takes a sequential number. The
	// last million is left to the locks and queues in the folder.
	maxCreations = math.MaxInt32 - 1<<20
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
	// In another history the servers may be restored ones, where other data has these versions.
	err = tx.client.Retry(tx.ctx, func(ctx context.Context) error {
		_, err := tx.client.Transact(ctx, ops...)
		return err
	}, framework.InHistory(tx.history))
	return tx.outcome(err)
}

// operations returns the checks and then the writes. The checks come first, because the writes of a transaction
// change what they check.
func (tx *Tx) operations() (ops []framework.Op, err error) {
	if tx.cfg.lease != nil {
		ops = append(ops, framework.CheckOp(tx.cfg.lease.Path(), framework.AnyVersion))
	}
	if len(tx.writes) == 0 {
		return ops, tx.verify()
	}
	// The look shows what was replaced, and comes as late as it can, so that few numbers are outdated.
	if len(tx.identified())+len(tx.lists)+len(tx.absent()) > 0 || tx.doubt != nil {
		if err := tx.lookBeforeCommit(); err != nil {
			return nil, err
		}
	}
	checks, err := tx.checks()
	return slices.Concat(ops, checks, tx.changes()), err
}

func (tx *Tx) lookBeforeCommit() error {
	before := tx.seen
	var err error
	if tx.seen, err = tx.look(false); err == nil {
		err = tx.compare(tx.seen)
	}
	switch refused := tx.refused; {
	case err != nil:
		return err
	case tx.doubt != nil && !tx.isUntouched():
		return tx.doubt
	case refused != "" && isSameFolder(before.stat(refused), tx.seen.stat(refused)):
		// Nothing has happened in the folder, and still its next number was another one.
		return fmt.Errorf("%s: %w", refused, locks.ErrSequenceExhausted)
	}
	tx.refused = ""
	return nil
}

// isUntouched reports whether a commit before, whose outcome is unknown, was not applied.
func (tx *Tx) isUntouched() bool {
	for path := range tx.writes {
		if tx.nodes[path].exists {
			return true // it is what it was, and all writes are applied or none
		}
	}
	for path := range tx.writes {
		if folder := tx.folderAsRead(parentOf(path)); folder != nil {
			return isSameFolder(folder, tx.seen.before[parentOf(path)])
		}
	}
	return true // it writes nothing
}

// checks returns the checks of what was read. Those of folders come first, because others create znodes, too.
func (tx *Tx) checks() ([]framework.Op, error) {
	tops, parents := tx.tops()
	probes, err := tx.probes(parents)
	if err != nil {
		return nil, err
	}
	ops := slices.Concat(probes, tops)
	for _, path := range slices.Sorted(maps.Keys(tx.nodes)) {
		n := tx.nodes[path]
		_, written := tx.writes[path]
		switch {
		case n.exists && n.stat.Version == framework.AnyVersion: // a check of it would accept any version
			return nil, fmt.Errorf("%s: %w", path, attempt.ErrVersionExhausted)
		case n.exists && !written && n.used: // a write checks the version itself
			ops = append(ops, framework.CheckOp(path, n.stat.Version))
		case n.exists && !written: // the function knows no more than that it exists
			ops = append(ops, framework.CheckOp(path, framework.AnyVersion))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(tx.lists)) {
		l := tx.lists[path]
		if isEphemeral(&l.stat) { // its parent is probed in its place, which says nothing if it has gone
			ops = append(ops, framework.CheckOp(path, framework.AnyVersion))
		}
		for _, name := range l.names {
			if child := framework.JoinPath(path, name); !tx.nodes[child].exists { // otherwise it is checked, or written on its version
				ops = append(ops, framework.CheckOp(child, framework.AnyVersion))
			}
		}
	}
	return ops, nil
}

// changes returns the writes.
func (tx *Tx) changes() []framework.Op {
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
	return slices.Concat(deletes, others)
}

// identified returns the znodes that must be the same ones, and not only have the same versions. A version does
// not show that a znode was deleted and created again. The root, and what belongs to the servers, cannot be.
func (tx *Tx) identified() (paths []string) {
	for path, n := range tx.nodes {
		if n.used && !tx.cfg.versionsOnly && path != "/" && !isServers(tx.client, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// absent returns the znodes that must still be missing, unless the transaction creates them, or a znode above them,
// which shows that.
func (tx *Tx) absent() (paths []string) {
	for path, n := range tx.nodes {
		if !n.exists && !tx.isCreatedAnew(path) && !isServers(tx.client, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func (tx *Tx) isCreatedAnew(path string) bool {
	for {
		if tx.writes[path].created && !tx.nodes[path].exists {
			return true
		}
		if path == "/" {
			return false
		}
		path = parentOf(path)
	}
}

// tops checks that what was missing is still missing: where there is a znode, it cannot be created. Nothing can be
// created below an ephemeral znode, so this must be the same one; tops returns its parent.
func (tx *Tx) tops() (ops []framework.Op, parents []string) {
	done := make(map[string]bool)
	for _, path := range slices.Sorted(slices.Values(tx.absent())) {
		top, above := tx.seen.top(path)
		if done[top] {
			continue
		}
		done[top] = true
		if isEphemeral(tx.seen.before[above]) {
			parents, ops = append(parents, parentOf(above)), append(ops, framework.CheckOp(above, framework.AnyVersion))
		} else {
			ops = append(ops, framework.CreateOp(top, nil), framework.DeleteOp(top))
		}
	}
	return ops, parents
}

// probes checks that nothing was created in these folders, in the folders of znodes that must be the same, and in
// folders that were listed. A sequential znode must get the number that follows the creations up to the last look.
func (tx *Tx) probes(folders []string) (ops []framework.Op, err error) {
	for _, path := range tx.identified() {
		folders = append(folders, parentOf(path))
	}
	for path, l := range tx.lists {
		if isEphemeral(&l.stat) {
			path = parentOf(path) // nothing can be created in it, as long as it is the same
		}
		folders = append(folders, path)
	}
	if tx.probe = ""; len(folders) == 0 {
		return nil, nil
	}
	if err := tx.client.RequireZooKeeper(tx.ctx); err != nil { // others count a folder's changes and numbers otherwise
		return nil, fmt.Errorf("%w: expected VersionsOnly, and no Children", err)
	}
	slices.Sort(folders)
	tx.probe = probePrefix + rand.Text() + "-" // no other client can have made a znode of this name
	for _, path := range slices.Compact(folders) {
		stat := tx.seen.stat(path)
		if stat == nil {
			return nil, conflict(path, errChanged)
		}
		next := creations(stat)
		if next > maxCreations {
			return nil, fmt.Errorf("%s: %w", path, locks.ErrSequenceExhausted)
		}
		prefix := framework.JoinPath(path, tx.probe)
		ops = append(ops,
			framework.CreateOp(prefix, nil, framework.WithMode(framework.PersistentSequential)),
			framework.DeleteOp(fmt.Sprintf("%s%010d", prefix, next)))
	}
	return ops, nil
}

// creations returns how many children were created in the folder so far. The server numbers sequential
// znodes by it. A Stat has the number of changes instead: creations and deletions.
func creations(stat *framework.Stat) uint32 {
	return (uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2
}

// outcome distinguishes a conflict from other errors of a commit.
func (tx *Tx) outcome(err error) error {
	var op *framework.OpError
	switch {
	case err == nil:
		return nil
	case framework.OutcomeUnknown(err):
		if len(tx.writes) > 0 {
			tx.doubt = err
		}
		return &crowdedError{"/", err}
	case attempt.NotSent(err):
		return conflict("/", err)
	case !errors.As(err, &op):
		return err
	case tx.cfg.lease != nil && op.Path == tx.cfg.lease.Path():
		if ended := tx.cfg.lease.Err(); ended != nil {
			return ended
		}
		return fmt.Errorf("the lock node of %s is missing, or this client names it otherwise: %w", tx.cfg.lease, err)
	case !attempt.Overtaken(err) && !errors.Is(err, framework.ErrNoChildrenForEphemerals): // that it is ephemeral was not read
		return err
	}
	// What was read may still be true: another transaction takes a number, too.
	if folder, name := framework.SplitPath(op.Path); tx.probe != "" && strings.HasPrefix(name, tx.probe) {
		tx.refused = folder
		return &crowdedError{folder, err}
	}
	return conflict(op.Path, err)
}
