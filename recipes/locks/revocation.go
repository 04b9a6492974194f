// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
)

// AttemptRevoke asks a contender to give its lock back, or to give it back soon once it has
// it. The owner of the lease is notified and may ignore the request. participantPath is the
// path of the contender's node, as in [InterProcessMutex.Participants] and [Lease.Path]. If
// the node is gone AttemptRevoke returns nil. It is Curator's Revoker.attemptRevoke.
//
// It replaces the node's data, and so the contender's identity, with the ten bytes
// __REVOKE__, which a client with compression compresses. A contender without compression does
// not see that request. AttemptRevoke blocks for one round trip, or until ctx ends. After a lost
// reply it asks again.
func AttemptRevoke(ctx context.Context, client *framework.Framework, participantPath string) error {
	if err := attempt.Check(client, participantPath); err != nil {
		return fmt.Errorf("locks: revoke: %w", err)
	}
	if !framework.IsProtectedName(participantPath) {
		return fmt.Errorf("locks: revoke %s: expected the path of a contender's node, which ends in a name such as %s",
			participantPath, "_c_<uuid>-lock-0000000000")
	}
	err := client.Set(ctx, participantPath, []byte(heldnode.Request), framework.Idempotent()) // asking twice does no harm
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return fmt.Errorf("locks: revoke %s: %w", participantPath, err)
	}
	return nil
}

// Revocable is a lock whose holder can be asked to give it back: an [InterProcessMutex], either side of
// an [InterProcessReadWriteLock], a [LockInternals]. It is Curator's interface of that name, but
// MakeRevocable is called once for a lock and not before each acquisition.
type Revocable interface {
	// MakeRevocable makes the lock call fn once for each of its leases that another client asks
	// to be released with [AttemptRevoke]. It is for the leases that are acquired after the call, and takes
	// the place of an earlier call. A nil fn ends it. Like [WithoutReentry] it is for this value only. If the
	// request came while the lease's node was waiting in the queue, or for another lease of the same hold,
	// fn is called when the lease is granted. It is not called for a lease that has ended.
	//
	// The lock stays held until the lease is released, which fn may do itself:
	//
	//	mutex.MakeRevocable(func(lease *locks.Lease) { stop(lease.Path()) })
	//
	// A caller may then drop a lease without a release, because fn can release it. The log does not
	// report it.
	//
	// fn runs on a goroutine of its own and may block. A panic of fn is logged. MakeRevocable sends nothing.
	MakeRevocable(fn func(*Lease))
}

// revocable is the feature of a lock with the method MakeRevocable, whose listener may come later.
var revocable = revocableBy(nil)

func revocableBy(fn func(*Lease)) feature {
	return feature{name: "revocation", ofHolds: true, attach: func(l *lock) error {
		l.observers = append(l.observers, new(revocations))
		l.MakeRevocable(fn)
		return nil
	}}
}

// MakeRevocable implements [Revocable].
func (l *lock) MakeRevocable(fn func(*Lease)) {
	for _, o := range l.observers {
		if r, ok := o.(*revocations); ok {
			r.listener.Store(&fn)
		}
	}
}

// WithRevocationListener is MakeRevocable of [Revocable] as an option. It is for permits of semaphores, and for
// a lock that another package makes, such as an election.
func WithRevocationListener(fn func(*Lease)) Option {
	return optionFunc(options.Checked(fn != nil, func(c *config) { c.add(revocableBy(fn)) }, "WithRevocationListener(nil), expected a function"))
}

// Revoked returns a channel that is closed when a client has asked for the lock with
// [AttemptRevoke], or with Curator's Revoker. The lease stays valid until its owner releases
// it. If the request came during the wait, the channel is closed when the lock is acquired.
// The request is for the hold, so it closes the channels of all leases that share the hold
// by re-entry.
//
// A request that is made while the owner is not connected arrives with the next connection.
// The end of the lease does not close the channel.
func (l *Lease) Revoked() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.hold.node.Asked().Done()
}

// revocations calls the listener of a lock.
type revocations struct {
	ignores

	listener atomic.Pointer[func(*Lease)]
}

// leased calls the listener, if there is one, when the lock is asked for before the lease ends.
func (r *revocations) leased(l *Lease) {
	listener := r.listener.Load()
	if listener == nil || *listener == nil {
		return
	}
	asked, stop := context.WithCancel(l.hold.node.Asked())
	// A lease that its caller has dropped is still for the listener, who may release it.
	context.AfterFunc(asked, func() {
		if l.Err() == nil {
			attempt.GuardHere(l.hold.l.client, func() error { (*listener)(l); return nil }, func(error) {}) // a panic is logged
		}
	})
	context.AfterFunc(l.context(), stop)
}
