// SPDX-License-Identifier: Apache-2.0

package x_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/recipes/x/txn"
	"github.com/gocurator/curator/testing/zksim"
)

type act = func(ctx context.Context, random *rand.Rand)

// upTo is a random time below a bound.
func upTo(random *rand.Rand, bound time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(bound)))
}

var histories = flag.Int("histories", 5, "how many histories of each recipe TestSimulation plays")

// TestSimulation plays random programs of each recipe on three servers with faults.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]zksim.Program{
		"jobs":         jobs(),
		"partitions":   partitions(),
		"transactions": transfers(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if program.Faults == nil {
				program.Faults = append(slices.Repeat([]zksim.Fault{zksim.KillProcess}, 4), zksim.Usual...)
			}
			zksim.Check(t, seeds.New(t).Uint64(), *histories, program)
		})
	}
}

// partitions is about the work of a group: each partition is at one member at a time.
func partitions() zksim.Program {
	return zksim.Program{
		Requests: 200, // to take over a piece
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			member, err := partition.New(c.Framework, "/partitions", partition.Fixed("a", "b", "c", "d"))
			return func(ctx context.Context, random *rand.Rand) {
				ctx, cancel := context.WithTimeout(ctx, upTo(random, 20*time.Second))
				defer cancel()
				err := member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
					defer w.Enter(zksim.Hold{
						Key: p.Name, Client: c.Index, Exclusive: true, Token: p.Lease.Token(),
						IsOver: func() bool { return p.Lease.Err() != nil },
					})()
					<-ctx.Done()
					return nil
				})
				w.Logf("client %d: %v", c.Index, err)
			}, err
		},
	}
}

// transfers is about transactions: the sum of all accounts stays.
func transfers() zksim.Program {
	accounts := []string{"/accounts/a", "/accounts/b", "/accounts/c"}
	balance := func(tx *txn.Tx, path string) (int, error) {
		data, err := tx.Get(path)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(data))
	}
	return zksim.Program{
		Actions: 12,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			for _, path := range accounts {
				_, err := c.Create(context.Background(), path, []byte("100"), framework.CreatingParentsIfNeeded())
				if err != nil && !errors.Is(err, framework.ErrNodeExists) {
					return nil, err
				}
			}
			return func(ctx context.Context, random *rand.Rand) {
				order := random.Perm(len(accounts))
				from, to, amount := accounts[order[0]], accounts[order[1]], random.IntN(50)
				err := txn.Do(ctx, c.Framework, func(tx *txn.Tx) error {
					a, err := balance(tx, from)
					if err != nil {
						return err
					}
					b, err := balance(tx, to)
					if err != nil {
						return err
					}
					return errors.Join(tx.Set(from, strconv.AppendInt(nil, int64(a-amount), 10)), tx.Set(to, strconv.AppendInt(nil, int64(b+amount), 10)))
				})
				w.Logf("client %d: %d from %s to %s: %v", c.Index, amount, from, to, err)
			}, nil
		},
		Settled: func(_ context.Context, w *zksim.World) {
			sum := 0
			for _, z := range w.Servers.Znodes("/accounts") {
				n, _ := strconv.Atoi(string(z.Data)) // the folder has no data
				sum += n
			}
			if sum != 100*len(accounts) {
				w.Findf("the accounts have %d together", sum)
			}
		},
	}
}

// jobs is about ticks: one replica runs a job at a time, in the order of its ticks, and none is left out.
func jobs() zksim.Program {
	const interval = 3 * time.Second
	type ticks struct {
		sync.Mutex
		began map[string]time.Time   // the last one, by job
		ended map[string][]time.Time // that no loss has interrupted
	}
	return zksim.Program{
		Actions:  3,
		Requests: 200, // to take over jobs
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			all := zksim.State[ticks](w)
			all.Lock()
			if all.began == nil {
				all.began, all.ended = make(map[string]time.Time), make(map[string][]time.Time)
			}
			all.Unlock()
			run := func(ctx context.Context, tick schedule.Tick) error {
				leave := w.Enter(zksim.Hold{
					Key: tick.Job, Client: c.Index, Exclusive: true, IsOver: func() bool { return ctx.Err() != nil },
				})
				defer leave()
				all.Lock()
				if before := all.began[tick.Job]; ctx.Err() == nil && tick.Time.Before(before) {
					w.Findf("client %d runs the tick %v of %s after %v", c.Index, tick.Time, tick.Job, before)
				}
				all.began[tick.Job] = tick.Time
				all.Unlock()
				time.Sleep(200 * time.Millisecond)
				all.Lock()
				defer all.Unlock()
				if ctx.Err() == nil {
					all.ended[tick.Job] = append(all.ended[tick.Job], tick.Time)
				}
				return ctx.Err()
			}
			var list []schedule.Job
			for i := range 2 {
				list = append(list, schedule.Job{
					Name: "job-" + strconv.Itoa(i), Schedule: schedule.Every(interval), Run: run, Overlap: schedule.Queue(100),
				})
			}
			replica, err := schedule.New(c.Framework, "/jobs", list...)
			return func(ctx context.Context, random *rand.Rand) {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second+upTo(random, 20*time.Second))
				defer cancel()
				w.Logf("client %d: %v", c.Index, replica.Run(ctx))
			}, err
		},
		Settled: func(_ context.Context, w *zksim.World) {
			for job, ended := range zksim.State[ticks](w).ended {
				slices.SortFunc(ended, time.Time.Compare)
				for i := 1; i < len(ended); i++ {
					if ended[i].Sub(ended[i-1]) > interval {
						w.Findf("no replica has run the ticks of %s between %v and %v to their end", job, ended[i-1], ended[i])
					}
				}
			}
		},
	}
}
