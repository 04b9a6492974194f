// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// WithLockDelay makes the next holder wait for d after a hold was lost, and not after a release. It
// is for resources that know no tokens: what the lost holder has under way, such as a request to
// another service, has d to come to an end. Consul has the same under this name.
//
// ZooKeeper does not tell whether a node was released or went with its session. So a holder creates
// a marker, the znode <path>/holder with the name of its node, before it has the lock. This is one
// round trip more for each hold, and a lock without contenders lists its folder each time. The
// release deletes node and marker in one transaction. The first contender that has its turn and finds a
// marker without its holder writes that into the marker. d counts from this write, as the time of the
// loss is not known. So the first to come an hour after a loss waits for d.
//
// The others compare the time of the write with the time at which their own node was created. Both are
// by the clock of the leading server. So contenders that each live for less than d get the lock in the end.
// Where that clock jumps, as it may when another server becomes the leader, a contender that stays waits
// for d at most. An Acquire waits at its place in the queue. A TryAcquire does not wait, and matches
// [ErrNotAcquired] until d is over.
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
		c.add(feature{name: "lock delay", attach: func(l *lock) error {
			if !l.handsOff || l.driver.Contends(markerName) {
				return errors.New("WithLockDelay, expected with an InterProcessMutex only, " +
					"or with a LockInternals for one lease whose driver takes no " + markerName + " for a contender")
			}
			l.entrances = append(l.entrances, lockDelay{d})
			return nil
		}})
		return nil
	})
}

const (
	// markerName has no digits in front, so that Java's mutex sorts it behind all contenders.
	markerName = "holder"

	// lostSuffix follows the name of a holder whose loss was noticed. No name of a node ends so.
	lostSuffix = " lost"
)

// lockDelay lets an acquisition in when the marker names its node.
type lockDelay struct{ delay time.Duration }

// left deletes the marker.
func (lockDelay) left(l *lock) framework.Op {
	return framework.DeleteOp(framework.JoinPath(l.path, markerName))
}

func (d lockDelay) admit(ctx context.Context, a *acquisition) (admitted bool, err error) {
	client, path, name := a.l.client, framework.JoinPath(a.l.path, markerName), a.self.name
	_, err = client.Create(ctx, path, []byte(name), framework.Uncompressed(), framework.Idempotent(), framework.InSession(a.session))
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
	case !isNew && string(holder) != name:
		// Only the first to find the marker writes: a later write would begin the delay again.
		if !strings.HasSuffix(string(holder), lostSuffix) {
			noticed := string(holder[:min(len(holder), maxHolder)]) + lostSuffix
			if err := setMarker(ctx, a, path, noticed, &marker); err != nil {
				return false, err
			}
		}
		if rest := d.rest(a, marker); rest > 0 {
			return false, d.outlast(ctx, a, rest)
		}
		if err := setMarker(ctx, a, path, name, &marker); err != nil {
			return false, err
		}
	}
	return true, nil
}

// maxHolder bounds what is kept of the data of a marker, which may be made by hand.
const maxHolder = 1024

// setMarker changes the marker if no other client has changed it.
func setMarker(ctx context.Context, a *acquisition, path, data string, marker *framework.Stat) error {
	err := a.l.client.Set(ctx, path, []byte(data), framework.WithVersion(marker.Version), framework.StoringStatIn(marker),
		framework.Uncompressed(), framework.Idempotent(), framework.InSession(a.session))
	if errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrSessionEnded) {
		return nodeGone(err)
	}
	return err
}

// rest returns how long to wait because of a marker that says when the loss was noticed.
func (d lockDelay) rest(a *acquisition, marker framework.Stat) time.Duration {
	// The server had created our node when its reply came, so its clock has gone on for at least as long.
	passed := time.Duration(a.stat.Ctime-marker.Mtime)*time.Millisecond + time.Since(a.self.created)
	left := d.delay - passed + time.Millisecond // to which the times of the server are rounded
	return min(left, d.delay)                   // a clock that was set back prolongs no delay
}

// outlast waits for the rest of a delay at the place in the queue.
func (lockDelay) outlast(ctx context.Context, a *acquisition, left time.Duration) error {
	if !a.wait {
		return &NotAcquiredError{delay: left}
	}
	a.waits(ctx, -1)
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
