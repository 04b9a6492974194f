// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// witnessPrefix begins the name of the znode by which a consumer learns what
// its transactions have done.
const witnessPrefix = "_consumer-"

// errOver says that the locks of a consumer have ended with its session.
var errOver = fmt.Errorf("the consumer's locks are gone: %w", framework.ErrSessionEnded)

// locker is the state of a consumer with locks in one session.
//
// All its writes are transactions that also write its witness, an ephemeral znode with a name of
// its own, on condition of its version. So a transaction whose reply was lost is repeated
// without being applied twice, and its outcome is known afterwards. It is not applied after the
// session has ended.
type locker struct {
	client  *framework.Framework
	session *framework.Session
	held    context.Context //nolint:containedctx // of the session: when it ends, so may the locks
	release func()

	witness string
	claim   string               // the name of the child that a locked item has
	version int32                // of the witness
	made    []framework.OpResult // by the last transaction whose reply has come
	inDoubt bool                 // a transaction that was to write this version has got no reply
}

// live has the claims of the lockers of this process. A lock of its session with another claim is a lock that no consumer has:
// restored servers have it, from a time at which a locker that has left since had locked the item.
var live sync.Map

// newLocker blocks until there is a session, and makes a witness in it, below lockPath.
func newLocker(ctx context.Context, client *framework.Framework, lockPath string) (made *locker, err error) {
	if err := client.BlockUntilConnected(ctx); err != nil {
		return nil, err
	}
	name := witnessPrefix + chance.Of(ctx).UUID(lockPath)
	l := &locker{
		client: client, session: client.Session(),
		witness: framework.JoinPath(lockPath, name), claim: name,
	}
	if l.held, l.release, err = l.session.Hold(ctx, client.ErrorPolicy()); err != nil {
		return nil, err
	}
	mayStay := true
	defer func() {
		switch {
		case made != nil:
		case mayStay: // or user code has panicked
			l.leave()
		default: // what was refused needs no deletion, which may be refused forever
			l.release()
		}
	}()
	for {
		_, err = l.client.Create(ctx, l.witness, nil, framework.WithMode(framework.Ephemeral),
			framework.InSession(l.session), framework.Idempotent())
		if !errors.Is(err, framework.ErrNoNode) {
			break
		}
		if err = ensure(ctx, client, lockPath); err != nil {
			break
		}
	}
	if err != nil {
		mayStay = framework.OutcomeUnknown(err)
		return nil, err
	}
	live.Store(l.claim, true)
	return l, nil
}

// leave gives up the locks. It does not block.
func (l *locker) leave() {
	live.Delete(l.claim)
	l.release()
	// The name is never used again. A client that has ended has no session.
	if err := l.client.Delete(context.Background(), l.witness, framework.InBackground()); err != nil && attempt.Ended(l.client) == nil {
		l.client.Logger().Warn("the znode of a consumer stays until its session ends", logPath, l.witness, "error", err)
	}
}

// do applies ops as one transaction, or fails. It repeats a transaction whose
// outcome is unknown. If that is so even afterwards, inDoubt is set, and the next
// call must be the same one. If the session has ended with the outcome, nothing is
// left to be repeated, and [framework.OutcomeUnknown] is true for the error.
func (l *locker) do(ctx context.Context, ops ...framework.Op) (err error) {
	ops = append([]framework.Op{framework.SetDataOp(l.witness, nil, framework.WithVersion(l.version))}, ops...)
	var doubt error
	defer func() {
		if doubt != nil && (l.inDoubt || errors.Is(err, errOver)) && !framework.OutcomeUnknown(err) {
			err = attempt.Then(doubt, err)
		}
	}()
	for {
		made, err := l.client.Transact(ctx, ops...)
		l.made = made
		switch {
		case framework.OutcomeUnknown(err):
			l.inDoubt, doubt = true, err
			if framework.Retryable(err) { // the version of the witness keeps it from being applied twice
				continue
			}
			return err
		case err == nil, l.inDoubt && errors.Is(err, framework.ErrBadVersion) && failedAt(err, l.witness):
			l.version++ // now or before: only this consumer writes the witness
			l.inDoubt = false
			return nil
		case attempt.Overtaken(err) && failedAt(err, l.witness): // the witness has gone with the session, or is of restored servers
			l.inDoubt = false
			return errors.Join(errOver, err)
		case !failedAt(err, l.witness), errors.Is(err, framework.ErrNoAuth):
			l.inDoubt = false // the witness has still had its old version
			return err
		default:
			return err // it was not sent, or refused as a whole
		}
	}
}

// failedAt reports whether the operation on path has made a transaction fail. A transaction that
// fails as a whole does so at its first one.
func failedAt(err error, path string) bool {
	var op *framework.OpError
	return errors.As(err, &op) && op.Path == path
}

// claimOf returns the path of the child that an item has while this consumer has locked it.
// An item of the same name in a folder that was cleared and used again does not have it.
func (l *locker) claimOf(item string) string { return framework.JoinPath(item, l.claim) }

// lock locks an item, if it is still there and no other consumer has locked it.
// Otherwise the error matches [attempt.Overtaken].
func (l *locker) lock(ctx context.Context, item, lock string) error {
	return l.do(ctx, framework.CreateOp(l.claimOf(item), nil, framework.WithMode(framework.Ephemeral)),
		framework.CreateOp(lock, []byte(l.claim), framework.WithMode(framework.Ephemeral)))
}

// unlock leaves the item where it is.
func (l *locker) unlock(ctx context.Context, item, lock string) error {
	_, err := l.finish(ctx, item, lock)
	return err
}

// finish applies ops to the item and unlocks it, and reports whether it has applied them. If the
// item is gone, or ops are refused, it only unlocks it. Without a lock of its own it leaves
// another consumer's alone.
func (l *locker) finish(ctx context.Context, item, lock string, ops ...framework.Op) (applied bool, err error) {
	claim := l.claimOf(item)
	err = l.do(ctx, slices.Concat([]framework.Op{framework.DeleteOp(claim)}, ops, []framework.Op{framework.DeleteOp(lock)})...)
	switch {
	case err == nil:
		return true, nil
	case l.inDoubt || mayPass(ctx, err) || errors.Is(err, errOver):
		return false, err
	case errors.Is(err, framework.ErrNoNode) && failedAt(err, lock):
		// Deleted by hand. Who has locked the item since has a claim of its own.
		return false, l.deleteLock(ctx, claim)
	case errors.Is(err, framework.ErrNotEmpty):
		// The child belongs to another consumer, because our lock was deleted by hand, or it was
		// created by hand.
		if ours, lookErr := l.owns(ctx, lock); lookErr != nil {
			return false, lookErr
		} else if !ours {
			l.client.Logger().Error("an item was consumed while another consumer had it, and stays in its queue", logPath, item, "error", err)
			return false, l.deleteLock(ctx, claim)
		}
	case errors.Is(err, framework.ErrNoNode) && failedAt(err, claim):
		// The item was deleted. A znode that has its name by now is another item.
		l.client.Logger().Warn("an item was deleted while it was consumed", logPath, item)
		return false, l.deleteLock(ctx, lock)
	}
	return false, err
}

// owns reports whether a lock is of this consumer: it has its name as data.
func (l *locker) owns(ctx context.Context, lock string) (bool, error) {
	data, err := l.client.Get(ctx, lock, framework.Undecompressed())
	if errors.Is(err, framework.ErrNoNode) {
		return false, nil
	}
	return err == nil && string(attempt.Plain(l.client, lock, data)) == l.claim, err
}

// isStale reports whether a lock is of this session, and no consumer has it.
func (l *locker) isStale(lock string, data []byte, stat framework.Stat) (claim string, isStale bool) {
	claim = string(attempt.Plain(l.client, lock, data))
	_, isLive := live.Load(claim)
	return claim, stat.EphemeralOwner == l.session.ID() && strings.HasPrefix(claim, witnessPrefix) && !isLive
}

// clear deletes a lock that no consumer has, with its claim. Without the claim the lock may be another one by now.
func (l *locker) clear(ctx context.Context, item, lock, claim string) error {
	err := l.do(ctx, framework.DeleteOp(framework.JoinPath(item, claim)), framework.DeleteOp(lock))
	if l.inDoubt || errors.Is(err, errOver) || mayPass(ctx, err) {
		return err
	}
	return nil // or it may not be deleted, which ends no consumer
}

// deleteLock deletes what is left of a lock.
func (l *locker) deleteLock(ctx context.Context, path string) error {
	err := l.do(ctx, framework.DeleteOp(path))
	if errors.Is(err, framework.ErrNoNode) && failedAt(err, path) {
		return nil
	}
	return err
}

// mayPass reports whether what has failed with this error may succeed later.
func mayPass(ctx context.Context, err error) bool {
	return framework.Retryable(err) || errors.Is(err, framework.ErrNotReadOnly) || ctx.Err() != nil
}

// maxPause bounds the pauses of consumers: an item waits for their end.
const maxPause = time.Second

// settle calls work until its outcome is known, and reports whether it is. It
// gives up when ctx ends.
func (l *locker) settle(ctx context.Context, work func(context.Context) error) bool {
	loop := attempt.Loop{Client: l.client, Longest: maxPause}
	err := loop.Do(ctx, func(ctx context.Context) error {
		err := work(ctx)
		switch {
		// Only the server knows that the session is over, and its locks are gone. To the client it
		// ends with its lease, but servers that come back go on with it.
		case errors.Is(err, errOver):
			return nil
		case err != nil && !l.inDoubt && !mayPass(ctx, err) && !attempt.RefusedForNow(err):
			l.client.Logger().Error("an item stays locked until the session ends", "error", err)
			return nil
		}
		return err
	})
	return err == nil || attempt.Ended(l.client) != nil
}
