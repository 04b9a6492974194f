// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// holders hold a lock each, in sessions of their own, under the same policy and with
// the same session timeout.
type holders struct {
	policy  framework.ErrorPolicy
	timeout time.Duration
	count   int
	safe    bool // the policy claims that nobody else gets the lock before they know

	all []*holder
}

// holder is one of them. Every third is idle, every third reads and every third writes
// meanwhile, to which a server without a quorum answers differently.
type holder struct {
	client *framework.Framework
	path   string
	lease  *locks.Lease
	lost   chan time.Time // gets the time at which the lease ended

	tooEarly bool          // before the cut, which proves nothing then
	overlap  bool          // a rival has got the lock while the lease was valid
	margin   time.Duration // from the loss to the rival
	err      error
}

// acquireAll starts the acquisitions. They are spread over the time between two
// pings, of which there are three in a session timeout, so that there is a session in
// every phase at the cut.
func (g *holders) acquireAll(t *testing.T, c *cluster, acquired *sync.WaitGroup) {
	t.Helper()
	g.all = make([]*holder, g.count)
	for i := range g.all {
		h := &holder{path: fmt.Sprintf("/%v-%v-%d", g.policy, g.timeout, i), lost: make(chan time.Time, 1)}
		g.all[i] = h
		acquired.Go(func() {
			<-time.After(g.timeout / 3 * time.Duration(i) / time.Duration(g.count))
			h.err = h.acquire(t, g, c, i%3)
		})
	}
}

func (h *holder) acquire(t *testing.T, g *holders, c *cluster, habit int) (err error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	h.client, err = framework.Connect(ctx, c.side.Addr(), c.timing,
		framework.WithDialer(c.holders.DialContext), framework.WithSessionTimeout(g.timeout))
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		// Closed already unless the test has failed.
		_ = h.client.Close()
	})
	mutex, err := locks.NewInterProcessMutex(h.client, h.path, locks.WithErrorPolicy(g.policy))
	if err != nil {
		return err
	}
	if h.lease, err = mutex.Acquire(ctx); err != nil {
		return err
	}
	go h.work(h.lease.Context(context.Background()), habit, c.tick/3)
	go func() {
		<-h.lease.Done()
		h.lost <- time.Now()
	}()
	return nil
}

// work is what the holder does until the lease ends.
func (h *holder) work(ctx context.Context, habit int, pause time.Duration) {
	for ctx.Err() == nil {
		switch habit {
		case 1:
			_, _ = h.client.Get(ctx, h.path) // it may fail, that is what the cut is for
		case 2:
			_ = h.client.Set(ctx, h.path, nil) // likewise
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// rivalLimit bounds how long a rival waits: longer than servers that were killed take to start
// and to elect a leader on a machine with much else to do.
const rivalLimit = 5 * time.Minute

// letRivalsWait starts a rival for every lock.
func (g *holders) letRivalsWait(t *testing.T, rival *framework.Framework, entered *sync.WaitGroup) {
	t.Helper()
	for _, h := range g.all {
		mutex := newMutex(t, rival, h.path)
		ctx, cancel := context.WithTimeout(t.Context(), rivalLimit)
		t.Cleanup(cancel)
		entered.Go(func() {
			theirs, err := mutex.Acquire(ctx)
			h.overlap = h.lease.Err() == nil
			now := time.Now()
			if err != nil {
				h.err = err
				return
			}
			h.margin = now.Sub(<-h.lost)
			h.err = theirs.Release(ctx)
		})
	}
	for _, h := range g.all {
		h.awaitRival(t, newMutex(t, rival, h.path))
	}
}

// awaitRival waits until the rival is in the queue, which it may have passed through already
// if the hold was lost before the cut.
func (h *holder) awaitRival(t *testing.T, mutex queue) {
	t.Helper()
	for ctx := zktest.Context(t); h.lease.Err() == nil; pause() {
		contenders := must.Get(mutex.Participants(ctx))(t)
		if len(contenders) == 2 {
			return
		}
	}
}

func (g *holders) markLost() {
	for _, h := range g.all {
		h.tooEarly = h.lease.Err() != nil
	}
}

// mostAreLost reports whether so many holds were lost before the cut that it shows nothing.
func (g *holders) mostAreLost() bool {
	lost := 0
	for _, h := range g.all {
		if h.tooEarly {
			lost++
		}
	}
	return 2*lost >= g.count
}

func (g *holders) overlaps() (n int) {
	for _, h := range g.all {
		if h.overlap {
			n++
		}
	}
	return n
}

// judge logs what was measured, and fails the test where a policy has not kept its
// promise.
func (g *holders) judge(t *testing.T) {
	t.Helper()
	counted := 0
	least := time.Hour
	for _, h := range g.all {
		require.NoError(t, h.err)
		if !h.tooEarly {
			counted++
			least = min(least, h.margin)
		}
	}
	name := fmt.Sprintf("%v policy, session timeout %v", g.policy, g.timeout)
	t.Logf("measured: %s: %d of %d holds overlap the next, which comes %v after the loss or later",
		name, g.overlaps(), counted, least.Round(time.Millisecond))
	if g.safe {
		require.Zero(t, g.overlaps(), name)
	}
}
