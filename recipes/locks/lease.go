// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
)

// Lease is a hold on a lock or on one permit of a semaphore, from a successful
// acquisition to its release or loss. Its methods are safe for concurrent use.
//
// A lease that becomes garbage before its release is an error in the client's log: the lock
// stays held until the client is closed.
type Lease struct {
	hold     *hold
	via      *LockInternals              // the lock it was acquired with, which names paths in its namespace
	derived  atomic.Pointer[derivations] // nil before the first; separate, as its callbacks must not keep the lease alive
	released atomic.Bool
	cleanup  runtime.Cleanup
	unlisten func() // removes the revocation listener

	mu    sync.Mutex
	ctx   context.Context // ends with the lease; nil before it is needed
	cease context.CancelCauseFunc
}

// newLease returns a lease of the hold that was acquired with the lock via.
func (h *hold) newLease(via *LockInternals) *Lease {
	l := &Lease{hold: h, via: via}
	l.cleanup = runtime.AddCleanup(l, reportLeak, h)
	l.listen()
	return l
}

func reportLeak(h *hold) {
	if h.lost.Load() {
		return // a lost lease keeps no lock
	}
	h.l.client.Logger().Error("a lease was dropped before its release: its lock stays held", string(keyPath), h.node.path)
}

// context returns a context that ends with the lease.
func (l *Lease) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cease = context.WithCancelCause(l.hold.ctx)
	}
	return l.ctx
}

// end ends the lease, unless the hold has ended and the lease with it.
func (l *Lease) end() {
	if l.hold.cause() == nil {
		l.context()
		l.cease(ErrReleased)
	}
}

// Done returns a channel that is closed when the lease ends, by its release or loss.
func (l *Lease) Done() <-chan struct{} { return l.context().Done() }

// Err returns nil while the lease is valid, a [*LostError] when it was lost, and
// [ErrReleased] once it has been released. When it returns an error, Done is closed.
func (l *Lease) Err() error {
	l.mu.Lock()
	ctx := l.ctx
	l.mu.Unlock()
	if ctx != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.hold.err()
}

// Token returns the fencing token: the czxid of the lock's node. On one ensemble it is
// greater than the token of every hold that this one had to wait for, even after the lock's
// folder was deleted and created again. Send it to the resource that the lock protects, and
// let the resource refuse a token below the greatest it has seen: only this stops a holder
// that was paused for longer than its session.
//
// Servers that come back empty or from a backup may give out tokens again, or lower ones:
// package fence says what an operator must do then.
//
// Leases of one owner that re-entered the lock share a token. So do a writer and the reader
// that it becomes, which takes the writer's place in the queue.
func (l *Lease) Token() int64 { return l.hold.node.token }

// Path returns the path of the lock's node, as the client of this lease's lock names it.
func (l *Lease) Path() string {
	if l.via == l.hold.l {
		return l.hold.node.path
	}
	_, name := framework.SplitPath(l.hold.node.path)
	return framework.JoinPath(l.via.path, name)
}

// String names the lease by the path of its node, for messages.
func (l *Lease) String() string {
	if l == nil {
		return "no lease"
	}
	return "lease " + l.Path()
}

// Format writes String for every verb. Without it fmt would follow pointers to what
// changes while it reads.
func (l *Lease) Format(s fmt.State, _ rune) {
	// fmt handles the errors of its writer itself.
	_, _ = io.WriteString(s, l.String())
}

// Transact applies the operations only while the lock is held: in the same transaction the
// server checks that the lock's node exists. Data in ZooKeeper needs no other fencing. The
// results are the results of ops.
func (l *Lease) Transact(ctx context.Context, ops ...framework.Op) ([]framework.OpResult, error) {
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("locks: transact under %s: %w", l.Path(), err)
	}
	guarded := append([]framework.Op{framework.CheckOp(l.Path(), framework.AnyVersion)}, ops...)
	results, err := l.via.client.Transact(ctx, guarded...)
	if err != nil {
		return nil, err
	}
	return results[1:], nil
}

// Since returns when the hold began, by the clock of this process. Leases of one owner that
// re-entered have the same time. [Participant] has the time of the node's creation, by the
// server's clock, which is when the wait began.
func (l *Lease) Since() time.Time { return l.hold.since }

// Session returns the session that the hold belongs to. Until its Deadline the session is
// certain to live; see [framework.Session].
func (l *Lease) Session() *framework.Session { return l.hold.session }

// Exclusive reports whether the lock has at most one owner at a time. It is false for a read
// lease, and for a permit of a semaphore unless the maximum is FixedLeases(1). Do not fence
// the tokens of leases that are not exclusive against each other: the older of two may still
// be valid.
//
// A [LockInternals] counts as exclusive if its maxLeases is 1.
func (l *Lease) Exclusive() bool {
	_, shared := l.hold.l.driver.(sharedDriver)
	return !shared && l.hold.l.maxLeases == MaxLeases(FixedLeases(1))
}

// sharedDriver is the driver of a lock that several owners may hold at once although its
// maximum is 1.
type sharedDriver interface{ isShared() }

func (readDriver) isShared() {}
