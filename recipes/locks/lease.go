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
	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/recipes/locks/internal/contexts"
	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
)

// Lease is a hold on a lock or on one permit of a semaphore, from a successful
// acquisition to its release or loss. Its methods are safe for concurrent use.
//
// A lease that becomes garbage before its release is an error in the client's log: the lock
// stays held until the client is closed.
type Lease struct {
	hold     *hold
	via      *lock                           // the lock it was acquired with, which names paths in its namespace
	derived  atomic.Pointer[contexts.Either] // nil before the first; separate, as its callbacks must not keep the lease alive
	released atomic.Bool
	cleanup  runtime.Cleanup

	mu    sync.Mutex
	ctx   context.Context // ends with the lease; nil before it is needed
	cease context.CancelCauseFunc
}

// newLease returns a lease of the hold that was acquired with the lock via.
func (h *hold) newLease(via *lock) *Lease {
	l := &Lease{hold: h, via: via}
	l.cleanup = runtime.AddCleanup(l, reportLeak, h)
	h.l.tell(func(o observer) { o.leased(l) })
	return l
}

func reportLeak(h *hold) {
	if h.lost.Load() {
		return // a lost lease keeps no lock
	}
	telemetry.ReportDrop(h.l.client, h.node.Path)
}

// nothingHeld is the context of a nil lease.
var nothingHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotAcquired)
	return ctx
}()

// context returns a context that ends with the lease.
func (l *Lease) context() context.Context {
	if l == nil {
		return nothingHeld
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cease = context.WithCancelCause(l.hold.context())
	}
	return l.ctx
}

// end ends the lease, unless the hold has ended and the lease with it.
func (l *Lease) end() {
	if l.hold.Ended() == nil {
		l.context()
		l.cease(ErrReleased)
	}
}

// Done returns a channel that is closed when the lease ends, by its release or loss.
func (l *Lease) Done() <-chan struct{} { return l.context().Done() }

// Err returns nil while the lease is valid, a [*LostError] when it was lost, and
// [ErrReleased] once it has been released. When it returns an error, Done is closed. Of a
// nil lease, such as [LeaseFrom] returns where nothing is held, it returns [ErrNotAcquired].
func (l *Lease) Err() error {
	if l == nil {
		return ErrNotAcquired
	}
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
func (l *Lease) Token() int64 {
	if l == nil {
		return 0
	}
	return l.hold.token
}

// Path returns the path of the lock's node, as the client of this lease's lock names it.
func (l *Lease) Path() string {
	if l == nil {
		return ""
	}
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
func (l *Lease) Since() time.Time {
	if l == nil {
		return time.Time{}
	}
	return l.hold.since
}

// Session returns the session that the hold belongs to. Until its Deadline the session is
// certain to live; see [framework.Session].
func (l *Lease) Session() *framework.Session {
	if l == nil {
		return nil
	}
	return l.hold.session
}

// Exclusive reports whether the lock has at most one owner at a time. It is false for a read
// lease, and for a permit of a semaphore unless the maximum is FixedLeases(1). Do not fence
// the tokens of leases that are not exclusive against each other: the older of two may still
// be valid.
//
// A [LockInternals] counts as exclusive if its maxLeases is 1.
func (l *Lease) Exclusive() bool {
	if l == nil {
		return false
	}
	return !l.hold.l.shared && l.hold.l.maxLeases == MaxLeases(FixedLeases(1))
}

// Context derives a context for work under the lock. It has the values and the deadline of
// ctx, and carries ownership: an acquisition of the same lock with it re-enters. It ends when
// ctx or the lease ends. If ctx was first, Err returns the error of ctx. If the lease was
// first, context.Cause returns a [*LostError] or [ErrReleased]. It panics if ctx is nil, as
// package context does.
//
// Of a context that was derived from it, such as by context.WithTimeout, Err returns context.Canceled
// even when the deadline of ctx has passed first. context.Cause returns the right error there too.
//
// There is nothing to cancel: the resources of the context are freed when ctx or the lease
// ends, and contexts derived from one ctx share them.
func (l *Lease) Context(ctx context.Context) context.Context {
	if ctx == nil {
		panic("locks: Context of a lease and a nil context")
	}
	if l == nil {
		return contexts.WithValues(nothingHeld, ctx)
	}
	if l.derived.Load() == nil {
		l.derived.CompareAndSwap(nil, new(contexts.Either))
	}
	ends, cancel := l.derived.Load().With(l.context(), ctx)
	c := &leaseContext{Context: ends, cancel: cancel, values: ctx, hold: l.hold, lease: l}
	c.settle()
	return c
}

// leaseKey finds the innermost leaseContext in a context.
type leaseKey struct{}

// leaseContext is a context under a lease: it ends with the lease or with another context,
// and has the values of that context.
type leaseContext struct {
	context.Context // ends; has no values of its own
	cancel          context.CancelCauseFunc
	values          context.Context
	hold            *hold
	lease           *Lease
}

// settle ends the context if its parent has ended. Otherwise that would wait for the
// goroutine that context.AfterFunc starts.
func (c *leaseContext) settle() {
	if c.Context.Err() == nil && c.values.Err() != nil { // once: contexts of many leases ask each other
		c.cancel(context.Cause(c.values))
	}
}

// Err returns nil while the lease and the context that Context was given last. After that context it is the error of that
// context, such as context.DeadlineExceeded, which cancel cannot hand down.
func (c *leaseContext) Err() error {
	c.settle()
	err := c.Context.Err()
	if err == nil {
		return nil
	}
	if own := context.Cause(c.lease.context()); own != nil && own == context.Cause(c.Context) { //nolint:errorlint // this very error
		return err // the lease has ended first
	}
	return c.values.Err()
}

// Deadline returns the deadline of the context that Context was given.
func (c *leaseContext) Deadline() (time.Time, bool) { return c.values.Deadline() }

// Value returns ownership, then the values of the context that Context was given.
// The embedded one comes first: package context finds its own there.
func (c *leaseContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		c.settle() // it may be asked for the cause
		return v
	}
	switch key {
	case leaseKey{}:
		return c
	case callscope.HolderKey{}:
		if c.hold.l.recipe != "" { // the turn at a semaphore is none: its owner is the caller
			_, name := framework.SplitPath(c.hold.node.Path)
			return name
		}
	case c.hold.l.owner:
		return c.hold
	}
	return c.values.Value(key)
}

// Format names the context as package context names its own, for every verb.
func (c *leaseContext) Format(s fmt.State, _ rune) {
	// As in Lease.Format.
	_, _ = fmt.Fprintf(s, "%v.WithLease(%s)", c.values, c.hold.node.Path)
}

// LeaseFrom returns the lease that a context was derived from with [Lease.Context]: the
// innermost if there are several, or nil if there is none. A nil lease holds nothing: Err and
// Transact return [ErrNotAcquired], its contexts have ended with that, and Token is 0. Inside [Do] it is the lease that
// Do has acquired; use it for Token, Transact or Revoked.
//
// The lease belongs to the caller that acquired it. Do releases its lease when fn
// returns; a release before that ends the context of fn.
func LeaseFrom(ctx context.Context) *Lease {
	if c := leaseContextIn(ctx); c != nil {
		return c.lease
	}
	return nil
}

func leaseContextIn(ctx context.Context) *leaseContext {
	if ctx == nil {
		return nil
	}
	c, _ := ctx.Value(leaseKey{}).(*leaseContext)
	return c
}

// owned returns the hold of this lock that ctx carries, or nil.
func (l *lock) owned(ctx context.Context) *hold {
	h, _ := ctx.Value(l.owner).(*hold)
	return h
}

// holds reports whether ctx carries a hold of this lock that has not ended.
func (l *lock) holds(ctx context.Context) bool {
	h := l.owned(ctx)
	return h != nil && h.err() == nil
}

// refuseReentry returns an error if re-entry is off and ctx holds the lock. A hold that has
// ended is refused later, with its cause.
func (l *lock) refuseReentry(ctx context.Context) error {
	if !l.cfg.noReentry || !l.holds(ctx) {
		return nil
	}
	return fmt.Errorf("%w: the context holds this lock already, which was made WithoutReentry: "+
		"acquire with a context that carries no lease of it", ErrReentered)
}
