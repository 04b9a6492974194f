// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/zktest"
)

// The ways in which a leader gives way.
const (
	byResigning = "resign"
	byDying     = "kill" // its session is closed by another connection
)

// candidate takes part in an election: to lead is to acquire, and to give way is to
// release. One that stops standing leaves.
type candidate struct {
	lead  locker
	leave func() error
}

// elect has candidates lead by turns until the time is over.
func elect(ctx context.Context, l load, candidates []candidate, changes *handOvers) (result, error) {
	var lockers []locker
	for _, c := range candidates {
		lockers = append(lockers, c.lead)
	}
	r, err := driveUntil(ctx, l, lockers, func(i int) error {
		changes.ending.Store(true)
		return candidates[i].leave()
	})
	r.HandP50, r.HandP99 = percentile(changes.all, 50), percentile(changes.all, 99)
	return r, err
}

// handOvers are the times from the end of a leadership to the next.
type handOvers struct {
	ending atomic.Bool // candidates have begun to leave

	mu    sync.Mutex
	given time.Time
	all   []float64 // microseconds
}

// gives notes that the leader gives way now.
func (h *handOvers) gives() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given = time.Now()
}

// leads notes the first statement of the next.
func (h *handOvers) leads() {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.given.IsZero() && !h.ending.Load() {
		h.all = append(h.all, microseconds(now.Sub(h.given)))
	}
}

// awaitStanding waits until there are four candidates: those that died before have to
// come back before the next leader dies.
func (h *handOvers) awaitStanding(ctx context.Context, count func() (int, error)) error {
	const standing = 4
	return awaitQueue(ctx, standing, func() (int, error) {
		if h.ending.Load() {
			return standing, nil
		}
		return count()
	})
}

// runElection measures LeaderLatch.
func runElection(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	if l.Queue {
		return runElectorate(ctx, at, l, path)
	}
	var candidates []candidate
	var open closers
	var changes handOvers
	defer func() { err = errors.Join(err, open.close()) }()
	for range l.Clients {
		client, err := connectSelf(ctx, at)
		if err != nil {
			return result{}, err
		}
		open = append(open, func() error {
			if err := client.Close(); l.Change == byResigning {
				return err
			}
			return nil // a session that was killed cannot be closed
		})
		latch, err := leader.NewLeaderLatch(client, path)
		if err != nil {
			return result{}, err
		}
		if err := latch.Start(); err != nil {
			return result{}, err
		}
		open = append(open, latch.Close)
		candidates = append(candidates, candidate{leave: latch.Close, lead: func(ctx context.Context, _ bool) (func(context.Context) error, error) {
			lease, err := latch.Await(ctx)
			changes.leads()
			return func(ctx context.Context) error {
				if l.Change == byResigning {
					changes.gives()
					return latch.Resign(ctx)
				}
				err := changes.awaitStanding(ctx, func() (int, error) {
					all, err := latch.Participants(ctx)
					return len(all), err
				})
				if err != nil {
					return err
				}
				changes.gives()
				_, err = zktest.EndSession(ctx, client)
				<-lease.Done()
				return err
			}, err
		}})
	}
	return elect(ctx, l, candidates, &changes)
}

// runElectorate assembles many candidates and has the leader resign once. The turns are
// those of joining.
func runElectorate(ctx context.Context, at servers, l load, path string) (r result, err error) {
	var clients []*framework.Framework
	var latches []*leader.LeaderLatch
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	began, used := time.Now(), costSoFar()
	for range l.Clients {
		client, err := connectSelf(ctx, at)
		if err != nil {
			return result{}, err
		}
		open, clients = append(open, client.Close), append(clients, client)
		for range l.Goroutines {
			latch, err := leader.NewLeaderLatch(client, path)
			if err != nil {
				return result{}, err
			}
			if err := latch.Start(); err != nil {
				return result{}, err
			}
			open, latches = append(open, latch.Close), append(latches, latch)
		}
	}
	all := func() (int, error) {
		names, err := clients[0].Children(ctx, path)
		if errors.Is(err, framework.ErrNoNode) {
			err = nil
		}
		return len(names), err
	}
	if err := awaitQueue(ctx, len(latches), all); err != nil {
		return result{}, err
	}
	r.All, r.Turns, r.Seconds = len(latches), len(latches), time.Since(began).Seconds()
	r.spent(&warm{began, used})
	return r, r.change(ctx, at, latches)
}

// settled is how long candidates that have been woken have for their requests.
const settled = time.Second

// change has the leader resign, and counts what the server was asked and has told.
func (r *result) change(ctx context.Context, at servers, latches []*leader.LeaderLatch) error {
	changed := make(chan time.Time, 2*len(latches)) // each leads once more at most when they are closed
	for _, latch := range latches {                 // they are closed when this is over
		latch.OnChange(func(c leader.Change) {
			if c.Leader {
				changed <- time.Now()
			}
		})
	}
	for _, latch := range latches {
		if !latch.HasLeadership() {
			continue
		}
		<-time.After(settled) // all who joined late have come to rest
		before, err := at.traffic(ctx)
		if err != nil {
			return err
		}
		resigned := time.Now()
		if err := latch.Resign(ctx); err != nil {
			return err
		}
		select {
		case led := <-changed:
			r.HandP50, r.HandP99 = microseconds(led.Sub(resigned)), microseconds(led.Sub(resigned))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		<-time.After(settled)
		after, err := at.traffic(ctx)
		if err != nil {
			return err
		}
		r.ChangeRequests = after.received - before.received
		r.Woken = after.sent - after.received - before.sent + before.received
		return nil
	}
	return fmt.Errorf("none of %d candidates leads", len(latches))
}
