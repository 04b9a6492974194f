package locks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"weak"

	"github.com/gocurator/curator/framework"
)

// revokeMessage is what Curator's Revoker writes to a lock's node.
const revokeMessage = "__REVOKE__"

// AttemptRevoke asks a contender to give its lock back, or not to keep it for long
// once it has it: a request, which the owner of the lease is told of and may ignore.
// The path is that of the contender's node, as [InterProcessMutex.Participants] and
// [Lease.Path] have it. A node that has gone meanwhile is no error. It is Curator's
// Revoker.attemptRevoke.
//
// It replaces the node's data, and so the contender's identity, by the ten bytes
// __REVOKE__, and blocks for one round trip, or until ctx ends. After a lost reply it
// asks again.
func AttemptRevoke(ctx context.Context, client *framework.Framework, participantPath string) error {
	if client == nil {
		return errors.New("locks: client nil, expected a started framework client")
	}
	if !framework.IsProtectedName(participantPath) {
		return fmt.Errorf("locks: revoke %s: expected the path of a contender's node, which ends in a name such as %s",
			participantPath, "_c_<uuid>-lock-0000000000")
	}
	err := client.Retry(ctx, func(ctx context.Context) error {
		return client.Set(ctx, participantPath, []byte(revokeMessage))
	}, framework.Idempotent()) // asking twice does no harm
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return fmt.Errorf("locks: revoke %s: %w", participantPath, err)
	}
	return nil
}

// WithRevocationListener has fn called for each lease of this lock that somebody has
// asked to be given back, once, and as long as the lock is in use. It is called for a
// lease as soon as that is granted if the request came earlier: while the lease's node
// was waiting in the queue, or for another lease of the same hold. It is not called
// for a lease that has ended.
//
// The lock stays held until the lease is released, which fn may do itself:
//
//	locks.WithRevocationListener(func(lease *locks.Lease) { stop(lease.Path()) })
//
// fn runs on a goroutine of its own and may block. A panic of fn is logged. It is
// Curator's makeRevocable, which there has to be repeated before each acquisition.
func WithRevocationListener(fn func(*Lease)) Option {
	return optionFunc(func(c *config) error {
		if fn == nil {
			return errors.New("WithRevocationListener(nil), expected a function")
		}
		c.onRevocation = fn
		return nil
	})
}

// Revoked is closed when somebody has asked for the lock with [AttemptRevoke], or
// with Curator's Revoker. The lease stays valid until it is released, and when is for
// its owner to decide; a channel that is closed already when the lock is acquired
// says that the request came during the wait. The request is for the hold, so all
// leases that share it by re-entering are told.
//
// A request that is made while there is no connection to the owner's server is told
// after the next one. It is not closed by the end of the lease.
func (l *Lease) Revoked() <-chan struct{} { return l.hold.revoked.Done() }

// RevocationRequested tells whether this contender has been asked to give the lock
// back, see [AttemptRevoke]. Its Identity is then no longer to be seen.
func (p Participant) RevocationRequested() bool { return p.Identity == revokeMessage }

// heed looks for a request in what the node contains. Any other content is none.
func (h *hold) heed(data []byte) {
	if bytes.Equal(data, []byte(revokeMessage)) {
		h.revoke()
	}
}

// listen has the lock's listener told of a request, if there is one, until the lease
// is released. The lease is held weakly, so that one that was dropped can still be
// reported.
func (l *Lease) listen() {
	fn := l.hold.l.cfg.onRevocation
	if fn == nil {
		l.unlisten = func() {}
		return
	}
	var asked context.Context
	asked, l.unlisten = context.WithCancel(l.hold.revoked)
	lease := weak.Make(l)
	context.AfterFunc(asked, func() {
		if l := lease.Value(); l != nil && !l.released.Load() && l.Err() == nil {
			l.tell(fn)
		}
	})
}

// tell calls the listener.
func (l *Lease) tell(fn func(*Lease)) {
	defer func() {
		if recovered := recover(); recovered != nil {
			l.hold.l.client.Logger().Error("a revocation listener panicked",
				string(keyPath), l.Path(), "panic", recovered, "stack", string(debug.Stack()))
		}
	}()
	fn(l)
}
