package locks

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
)

// Lease is a hold on a lock or on one permit of a semaphore, from a successful
// acquisition to its release or loss. Its methods are safe for concurrent use.
//
// A lease that becomes garbage without having been released is reported as an
// error in the client's log; the lock stays held until the client is closed.
type Lease struct {
	hold     *hold
	via      *LockInternals // acquired with this one, which names paths in its namespace
	ctx      context.Context
	end      context.CancelCauseFunc
	released atomic.Bool
	cleanup  runtime.Cleanup
	unlisten func() // takes the revocation listener back
}

func (h *hold) newLease() *Lease {
	l := &Lease{hold: h, via: h.l}
	l.ctx, l.end = context.WithCancelCause(h.ctx)
	l.cleanup = runtime.AddCleanup(l, reportLeak, leak{h.l.client.Logger(), h.node.Path})
	l.listen()
	return l
}

type leak struct {
	log  *slog.Logger
	path string
}

func reportLeak(l leak) {
	l.log.Error("a lease was dropped without having been released: its lock stays held", string(keyPath), l.path)
}

// Done is closed when the lease ends: it was released, or lost.
func (l *Lease) Done() <-chan struct{} { return l.ctx.Done() }

// Err returns nil while the lease is valid, a [*LostError] when it was lost, and
// [ErrReleased] once it has been released.
func (l *Lease) Err() error {
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	return l.hold.err()
}

// Token is the fencing token: the czxid of the lock's node. On one ensemble it is
// greater than the token of every hold of the lock that it had to wait for, also
// after the lock's folder was deleted and created again. Hand it to whatever the
// lock protects, and let that refuse a token below the greatest it has seen: only
// this stops a holder that was paused for longer than its session.
//
// Leases of one owner that re-entered the lock share a token. So do a writer and
// the reader it downgrades to, which takes the writer's place in the queue.
func (l *Lease) Token() int64 { return l.hold.node.token() }

// Path is the path of the lock's node, as the client of this lease's lock names it.
func (l *Lease) Path() string {
	if l.via == l.hold.l {
		return l.hold.node.Path
	}
	_, name := framework.SplitPath(l.hold.node.Path)
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
	// fmt reports what its writer refuses itself, or has nobody to report it to.
	_, _ = io.WriteString(s, l.String())
}

// Context derives a context for work under the lock: it has the values of ctx,
// ends with ctx and when the lease ends, and carries ownership, so that an
// acquisition of the same lock with it re-enters. When the lease has ended
// context.Cause is a [*LostError] or [ErrReleased]. It panics if ctx is nil, as package
// context does.
func (l *Lease) Context(ctx context.Context) context.Context {
	if ctx == nil {
		panic("locks: Context of a lease and a nil context")
	}
	derived, cancel := context.WithCancelCause(l.ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	context.AfterFunc(derived, func() { stop() })
	return &leaseContext{Context: derived, values: ctx, hold: l.hold, lease: l}
}

// Transact applies the operations only if this lease still holds: the server
// checks, in the same transaction, that the lock's node exists. It needs no
// fencing at the receiver as long as what is protected is in ZooKeeper.
func (l *Lease) Transact(ctx context.Context, ops ...framework.Op) ([]framework.OpResult, error) {
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("locks: transact under %s: %w", l.Path(), err)
	}
	guarded := append([]framework.Op{framework.CheckOp(l.Path())}, ops...)
	results, err := l.via.client.Transact(ctx, guarded...)
	if err != nil {
		return nil, err
	}
	return results[1:], nil
}

// Release gives the lease back; with the last lease of a hold, the lock. The
// lease's contexts end first, then the node is deleted. Release blocks until the
// server has confirmed that, or ctx ends: even with a context that has ended
// already the deletion is made, in the background, and the error then matches
// [framework.ErrCleanupPending].
//
// Release returns a [*LostError] when the lease had been lost, or its session has
// ended before the deletion came through: what was done under it may have been done
// without the lock. It is idempotent: only the first call
// does anything, all later ones return nil. It is safe on a nil lease. With a nil context
// it only returns an error.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if ctx == nil {
		return fmt.Errorf("locks: release %s: %w", l.Path(), errNilContext)
	}
	if l.released.Swap(true) {
		return nil
	}
	l.cleanup.Stop()
	l.unlisten()
	err := l.hold.leave(ctx)
	l.end(ErrReleased)
	if err != nil {
		return fmt.Errorf("locks: release %s: %w", l.Path(), err)
	}
	return nil
}

// leaseContext is a context under a lease: it ends with the lease, and its values
// are those of another context.
type leaseContext struct {
	context.Context // ends; has no values of its own
	values          context.Context
	hold            *hold
	lease           *Lease
}

// ownerKey finds the hold of one lock in a context. Views of one client that name
// the same node name the same lock. The base path tells the two sides of a
// read/write lock apart, which share a folder.
type ownerKey struct {
	client   *framework.Framework // that of all views
	basePath string               // at the server
}

func (l *LockInternals) ownerKey() ownerKey {
	return ownerKey{l.client.WithoutNamespace(), l.client.FullPath(l.basePath)}
}

// Format names the context as package context names its own, for every verb.
func (c *leaseContext) Format(s fmt.State, _ rune) {
	// As in Lease.Format.
	_, _ = fmt.Fprintf(s, "%v.WithLease(%s)", c.values, c.hold.node.Path)
}

// Value returns ownership, then the values of the context that Context was given.
// The embedded one comes first: package context finds its own there.
func (c *leaseContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	if key == (leaseKey{}) {
		return c
	}
	if key == c.hold.l.ownerKey() {
		return c.hold
	}
	return c.values.Value(key)
}

// Deadline is that of the context that Context was given.
func (c *leaseContext) Deadline() (time.Time, bool) { return c.values.Deadline() }

// owned returns the hold of this lock that ctx carries, or nil.
func (l *LockInternals) owned(ctx context.Context) *hold {
	if ctx == nil {
		return nil // the acquisition will say so
	}
	h, _ := ctx.Value(l.ownerKey()).(*hold)
	return h
}
