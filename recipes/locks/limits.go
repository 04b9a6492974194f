// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/gocurator/curator/framework"
)

// WithMaxHold ends each hold of the lock that lasts for d, as a loss whose reason is
// [framework.ReasonMaxHold]. First the contexts of its leases end, and then the client deletes the
// node. The log and curator.lock.lost tell. So a holder that hangs does not keep the lock for as
// long as its session lives.
//
// A holder that goes on without regard to its context works without the lock, beside the next
// holder. Give the resource the token, or set [WithLockDelay]. A lease that re-enters does not
// prolong the hold. Each hold of a row of [WithLocalHandoff] counts for itself. Default: no bound.
func WithMaxHold(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithMaxHold(%v), expected more than 0", d)
		}
		c.maxHold = d
		return nil
	})
}

// WithLockDelay makes the next holder wait for d after a hold was lost, and not after a release. It
// is for resources that know no tokens: what the lost holder has under way, such as a request to
// another service, has d to come to an end. Consul has the same under this name.
//
// ZooKeeper does not tell whether a node was released or went with its session. So a holder creates
// a marker, the znode <path>/holder with the name of its node, before it has the lock. This is one
// round trip more for each hold, and a lock without contenders lists its folder each time. The
// release deletes node and marker in one transaction. The next contender in the queue that finds a
// marker waits at its place. d counts from the moment at which
// its client first finds that marker, as the time of the loss is not known. So the first to come an
// hour after a loss waits for d, too. A TryAcquire does not wait, and matches [ErrNotAcquired]
// until d is over.
//
// A hold that ends with its client or by [WithMaxHold] counts as lost. So does a release that the
// server does not confirm, and an acquisition that fails right after it has made the marker.
// A marker and its folder stay until the next release.
//
// All clients of the lock need the option: others leave no marker, and do not wait. Curator and
// kazoo ignore the marker, but zk.Lock of go-zookeeper fails in a folder with one. The option is
// for an [InterProcessMutex], or a [LockInternals] for one lease, such as an election. Default:
// no delay.
func WithLockDelay(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithLockDelay(%v), expected more than 0", d)
		}
		c.delay = d
		return nil
	})
}

// markerName has no digits in front, so that Java's mutex sorts it behind all contenders.
const markerName = "holder"

var errDelayOfMany = errors.New("WithLockDelay, expected with an InterProcessMutex only, " +
	"or with a LockInternals for one lease whose driver takes no " + markerName + " for a contender")

// found has the markers that clients have found. It outlives the value of a lock, as a program may make one for each try.
var found = struct {
	sync.Mutex
	byLock map[foundBy]foundMarker
}{byLock: make(map[foundBy]foundMarker)}

// foundBy is a client, and the path of a lock at the server.
type foundBy struct {
	client weak.Pointer[framework.Framework] // without namespace
	path   string
}

type foundMarker struct {
	czxid   int64
	version int32
	at      time.Time
}

// delayLeft returns how long to wait because of a marker.
func (l *lock) delayLeft(marker framework.Stat) time.Duration {
	client := l.client.WithoutNamespace()
	by := foundBy{weak.Make(client), l.fullPath}
	found.Lock()
	defer found.Unlock()
	last, ok := found.byLock[by]
	if !ok {
		runtime.AddCleanup(client, forgetFound, by)
	}
	if last.czxid != marker.Czxid || last.version != marker.Version {
		last = foundMarker{marker.Czxid, marker.Version, time.Now()}
		found.byLock[by] = last
	}
	return time.Until(last.at.Add(l.cfg.delay))
}

func forgetFound(by foundBy) {
	found.Lock()
	defer found.Unlock()
	delete(found.byLock, by)
}

// mark makes the marker name our node. It reports false without an error when it has waited.
func (a *acquisition) mark(ctx context.Context) (ready bool, err error) {
	if a.l.cfg.delay == 0 || a.marked {
		return true, nil
	}
	client, path := a.l.client, framework.JoinPath(a.l.path, markerName)
	ours := []framework.CreateOption{framework.Uncompressed(), framework.Idempotent(), framework.InSession(a.session)}
	_, err = client.Create(ctx, path, []byte(a.name), ours...)
	isNew := err == nil
	var marker framework.Stat
	var holder []byte
	if errors.Is(err, framework.ErrNodeExists) {
		holder, err = client.Get(ctx, path, framework.StoringStatIn(&marker), framework.Undecompressed())
	}
	switch {
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrSessionEnded):
		return false, nodeGone(err) // the folder or the session is gone, or another client is at work
	case err != nil:
		return false, err
	case isNew, string(holder) == a.name:
		a.marked = true
		return true, nil
	}
	if left := a.l.delayLeft(marker); left > 0 {
		return false, a.outlast(ctx, left)
	}
	err = client.Set(ctx, path, []byte(a.name),
		framework.WithVersion(marker.Version), framework.Uncompressed(), framework.Idempotent(), framework.InSession(a.session))
	if errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrSessionEnded) {
		return false, nodeGone(err)
	}
	a.marked = err == nil
	return a.marked, err
}

// outlast waits for the rest of a delay at the place in the queue.
func (a *acquisition) outlast(ctx context.Context, left time.Duration) error {
	if !a.wait {
		return &NotAcquiredError{delay: left}
	}
	if a.began.IsZero() {
		a.began = time.Now()
	}
	a.span.Waits()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.session.Done():
	case <-ctx.Done():
		return &NotAcquiredError{delay: left, cause: ended(ctx)}
	}
	return nil
}

// remove deletes the node of a hold, and its marker in the same transaction.
func (h *hold) remove(ctx context.Context) error {
	var applied error // of the transaction
	if h.marked {
		_, applied = h.l.client.Transact(ctx, framework.DeleteOp(h.node.Path),
			framework.DeleteOp(framework.JoinPath(h.l.path, markerName)))
		if applied == nil {
			return nil
		}
	}
	// The marker stays: without an answer, nobody knows what the next holder would find.
	err := h.l.client.Delete(ctx, h.node.Path, framework.Guaranteed())
	if errors.Is(err, framework.ErrNoNode) && framework.OutcomeUnknown(applied) {
		return nil // by the transaction
	}
	return err
}
