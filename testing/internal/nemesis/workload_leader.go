// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
)

// oneLeader is the promise that no two candidates lead at one time.
const oneLeader promise = "two_leaders"

// leaderWorkloads are elections.
var leaderWorkloads = []workload{{
	name: "leader", workers: 1, exclusive: true, model: mutexModel, least: 60, overlap: oneLeader, prepare: prepareLeader,
}}

// candidate is the latch of a worker.
type candidate struct {
	worker *worker
	latch  *leader.LeaderLatch
	stands int64 // since when, at the earliest, the node of its next leadership may exist
}

// prepareLeader stands for election all the time. A turn is a leadership, after
// which the latch resigns, or is closed and replaced by another.
func prepareLeader(w *worker) (func(context.Context), error) {
	c := &candidate{worker: w}
	if err := c.start(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if h := c.await(ctx); h != nil {
			w.work(ctx, h)
			c.stands = monotonic()
			h.release(ctx)
		}
		if !w.last && w.random.IntN(10) != 0 {
			return
		}
		err := c.latch.Close()
		if !w.last {
			err = errors.Join(err, c.start())
		}
		if err != nil {
			w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, err))
		}
	}, nil
}

func (c *candidate) start() (err error) {
	c.stands = monotonic()
	c.latch, err = leader.NewLeaderLatch(c.worker.client.framework, c.worker.spec.path(),
		leader.WithLockOptions(locks.WithErrorPolicy(c.worker.spec.Policy)))
	if err != nil {
		return err
	}
	return c.latch.Start()
}

// await waits until the latch leads, and returns nil if that takes too long.
func (c *candidate) await(ctx context.Context) *held {
	w := c.worker
	ctx, cancel := w.bounds(ctx)
	defer cancel()
	call := w.call(w.spec.Name, "", false)
	call.asked = c.stands
	lease, err := c.latch.Await(ctx)
	at := monotonic()
	if err != nil {
		call.failed(at, err)
		return nil
	}
	return call.granted(at, 0, w.spec.Name, lease)
}
