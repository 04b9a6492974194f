// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
)

// metaPrefix is the beginning of the names of the znodes that record migrations, as in Curator.
const metaPrefix = "meta-"

// ErrChanged reports that the migrations that have run are not the first migrations of the set. A migration was
// changed, or this program is older than the ensemble's znodes. Nothing was written.
var ErrChanged = errors.New("the set differs from the migrations that have run")

// Migration is a list of operations that run together, in order.
type Migration []Operation

// Set is a list of migrations that run in order, each once.
type Set struct {
	ID           string // names the lock; one part of a path
	MetadataPath string // of the znodes that record what has run; nothing else may use it, and no migration may create its parents
	Migrations   []Migration
}

// Manager runs sets of migrations. It is safe for concurrent use.
type Manager struct {
	client   *framework.Framework
	lockPath string
}

// NewManager returns a manager whose locks are below lockPath, which no migration may create. It sends nothing.
func NewManager(client *framework.Framework, lockPath string) (*Manager, error) {
	if err := attempt.Check(client, lockPath); err != nil {
		return nil, fmt.Errorf("migration: %w", err)
	}
	return &Manager{client: client, lockPath: lockPath}, nil
}

// Migrate applies the migrations of the set that have not run yet, in order. It applies as many of them in one
// transaction as a request can have, so each migration is applied whole or not at all. After an error the migrations
// of earlier transactions stay, and the next Migrate goes on behind them. Migrate waits for other processes that run
// the set. It returns nil if nothing is left to do. It returns [ErrChanged] if the migrations that have run
// are not the first of the set. If an operation cannot be applied, the error names its path; of the migrations that share its
// transaction none is applied. If
// [framework.OutcomeUnknown] is true for the error, the migrations may have been applied; the next Migrate finds out.
func (m *Manager) Migrate(ctx context.Context, set Set) error {
	return attempt.Wrapf(m.migrate(ctx, set), "migration: set %q", set.ID)
}

func (m *Manager) migrate(ctx context.Context, set Set) error {
	if ctx == nil {
		return attempt.ErrNilContext
	}
	if err := set.check(); err != nil {
		return err
	}
	lockPath := framework.JoinPath(m.lockPath, set.ID)
	if isIn(lockPath, set.MetadataPath) { // which may have records only
		return fmt.Errorf("%w: the lock is at %s, expected a path outside of the metadata path %s", framework.ErrInvalidOption, lockPath, set.MetadataPath)
	}
	lock, err := locks.NewInterProcessSemaphoreMutex(m.client, lockPath)
	if err != nil {
		return err
	}
	return retry.Do(ctx, m.client.RetryPolicy(), func(ctx context.Context) error {
		err := lock.Do(ctx, func(ctx context.Context) error { return m.apply(ctx, locks.LeaseFrom(ctx), set) })
		// With the lock a connection is lost, too. The transaction depends on the lock, so it can no longer be applied once
		// the lock is held again. The records tell then whether it was.
		if errors.As(err, new(*locks.LostError)) || framework.OutcomeUnknown(err) && framework.Retryable(err) {
			return err
		}
		return backoff.Permanent(err)
	})
}

// apply applies what has not run, under the lock.
func (m *Manager) apply(ctx context.Context, lease *locks.Lease, set Set) error {
	for {
		ended, err := m.applySome(ctx, lease, set)
		if ended || err != nil {
			return err
		}
	}
}

// applySome applies as many migrations as fit into one transaction, and reports whether none is left. A set with another
// ID has another lock. So each transaction also writes the folder of the records, as it is, on condition of its version.
func (m *Manager) applySome(ctx context.Context, lease *locks.Lease, set Set) (ended bool, err error) {
	var folder framework.Stat
	data, err := m.client.Get(ctx, set.MetadataPath, framework.StoringStatIn(&folder), framework.Undecompressed())
	isMissing := errors.Is(err, framework.ErrNoNode)
	if err != nil && !isMissing {
		return false, err
	}
	left, err := m.left(ctx, lease, set)
	if err != nil || len(left) == 0 {
		return true, err
	}
	if isMissing {
		return false, m.client.CreateContainers(ctx, set.MetadataPath)
	}
	for n := len(left); ; n /= 2 {
		ops := []framework.Op{framework.SetDataOp(set.MetadataPath, data, framework.WithVersion(folder.Version), framework.Uncompressed())}
		for _, migration := range left[:n] {
			for _, o := range migration {
				ops = append(ops, o.op())
			}
			ops = append(ops, framework.CreateOp(framework.JoinPath(set.MetadataPath, metaPrefix), migration.hash(),
				framework.WithMode(framework.PersistentSequential)))
		}
		_, err := lease.Transact(ctx, ops...)
		switch {
		case errors.Is(err, framework.ErrTooLarge) && n > 1:
		case errors.Is(err, framework.ErrBadVersion) && isOf(err, set.MetadataPath):
			return false, nil // another set has run: see what is recorded now
		default:
			return n == len(left), err
		}
	}
}

// isOf reports whether an error is of an operation on a path.
func isOf(err error, path string) bool {
	failed, ok := errors.AsType[*framework.OpError](err)
	return ok && failed.Path == path
}

// left returns what has not run.
func (m *Manager) left(ctx context.Context, lease *locks.Lease, set Set) ([]Migration, error) {
	ran, err := m.hashes(ctx, set.MetadataPath)
	if err != nil {
		return nil, err
	}
	if len(ran) > len(set.Migrations) {
		return nil, fmt.Errorf("%w: %d migrations have run, expected at most the %d of this set", ErrChanged, len(ran), len(set.Migrations))
	}
	for i, hash := range ran {
		if !bytes.Equal(hash, set.Migrations[i].hash()) {
			return nil, fmt.Errorf("%w: migration %d has another hash than the one that ran", ErrChanged, i)
		}
	}
	left := set.Migrations[len(ran):]
	for i, migration := range left {
		for n, o := range migration {
			if o.isAbove(lease.Path()) { // not of a migration that ran under another lock
				return nil, fmt.Errorf("%w: operation %d of migration %d is a %s of %s, which the lock is below; expected a lock path outside of it",
					framework.ErrInvalidOption, n, len(ran)+i, o.kind, o.path)
			}
		}
	}
	return left, nil
}

// hashes returns what has run, in order.
func (m *Manager) hashes(ctx context.Context, path string) ([][]byte, error) {
	children, err := m.client.ChildrenData(ctx, path, nil)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return nil, err
	}
	hashes := make([][]byte, len(children))
	for i, child := range children {
		if !strings.HasPrefix(child.Name, metaPrefix) {
			return nil, fmt.Errorf("%s: child %q, expected only %s and a number: the path belongs to something else", path, child.Name, metaPrefix)
		}
		hashes[i] = child.Data
	}
	return hashes, nil
}

func (s Set) check() error {
	if s.ID == "" || strings.Contains(s.ID, "/") {
		return fmt.Errorf("%w: ID %q, expected a name without a slash", framework.ErrInvalidOption, s.ID)
	}
	if err := framework.ValidatePath(s.MetadataPath); err != nil {
		return fmt.Errorf("metadata path: %w", err)
	}
	if len(s.Migrations) == 0 {
		return fmt.Errorf("%w: no migrations, expected at least one", framework.ErrInvalidOption)
	}
	for i, migration := range s.Migrations {
		for n, o := range migration {
			if err := o.validate(); err != nil {
				return fmt.Errorf("operation %d of migration %d: %w", n, i, err)
			}
			if isIn(o.path, s.MetadataPath) {
				return fmt.Errorf("%w: operation %d of migration %d is on %s, expected a path outside of the metadata path %s",
					framework.ErrInvalidOption, n, i, o.path, s.MetadataPath)
			}
			if o.isAbove(s.MetadataPath) {
				return fmt.Errorf("%w: operation %d of migration %d is a %s of %s, expected a metadata path outside of it, not %s",
					framework.ErrInvalidOption, n, i, o.kind, o.path, s.MetadataPath)
			}
		}
	}
	return nil
}

// isIn reports whether path is folder, or below it.
func isIn(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// hash is the SHA-256 of the operations, each as kind with settings, path and data, with their lengths before them.
func (m Migration) hash() []byte {
	digest := sha256.New()
	for _, o := range m {
		for _, part := range [][]byte{[]byte(o.kind + o.settings()), []byte(o.path), o.data} {
			// A hash returns no error.
			_, _ = digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
			_, _ = digest.Write(part)
		}
	}
	return digest.Sum(nil)
}
