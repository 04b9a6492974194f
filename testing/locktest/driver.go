// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// CheckDriver checks a driver of a lock that up to maxLeases owners may hold at once, and
// whose nodes are named for lockName. It reports each violation as an error of the test. It
// starts its own server and takes about a second. It checks that
//
//   - the order is total, and foreign names are not contenders;
//   - decisions name contenders, each once and never ours, and do not change the list; they
//     admit one contender at least and maxLeases at most; for a contender that is not
//     listed the error matches [framework.ErrNoNode];
//   - a newcomer takes the lock from no holder, unless the driver is of a waiting room, which
//     is no lock by itself: its method Overtakes() bool returns true;
//   - when goroutines of two clients contend, no more than maxLeases hold the lock at once,
//     all get their turns, and no node is left.
//
// A panic of the driver is an error too, and so is the end of a goroutine that calls it.
func CheckDriver(tb testing.TB, driver locks.LockInternalsDriver, lockName string, maxLeases int) {
	tb.Helper()
	server := zktest.NewServer(tb)
	clients := []*framework.Framework{zktest.Client(tb, server), zktest.Client(tb, server)}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), checkTimeout)
	defer cancel()
	c := check{driver: driver, lockName: lockName, maxLeases: maxLeases}
	c.guarded(func() { c.decisions(ctx, clients[0]) })
	if len(c.found) == 0 { // with a wrong driver the lock may hang
		c.guarded(func() { c.contention(ctx, clients) })
	}
	for _, problem := range c.found {
		tb.Errorf("locktest: %T: %s", driver, problem)
	}
}

// checkTimeout bounds a check. A check that runs into it has failed.
const checkTimeout = time.Minute

// check is one call of CheckDriver.
type check struct {
	driver    locks.LockInternalsDriver
	lockName  string
	maxLeases int

	mu    sync.Mutex // guards found
	found []string
}

// problemf records a violation, once.
func (c *check) problemf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.found, text) {
		c.found = append(c.found, text)
	}
}

// guarded runs part of the check, and records a panic of the driver, or that it has ended the goroutine.
func (c *check) guarded(fn func()) {
	returned := false
	defer func() {
		switch recovered := recover(); {
		case recovered != nil:
			c.problemf("panicked: %v", recovered)
		case !returned:
			c.problemf("ended its goroutine, as runtime.Goexit does")
		}
	}()
	fn()
	returned = true
}

// decisions checks the driver with the names that it has given to nodes.
func (c *check) decisions(ctx context.Context, client *framework.Framework) {
	const nodes = 8
	var names []string // in the order of their creation
	for range nodes {
		node, err := c.driver.CreatesTheLock(ctx, client, client.Session(), "/decisions/"+c.lockName, nil)
		if err != nil {
			c.problemf("CreatesTheLock: %v", err)
			return
		}
		_, name := framework.SplitPath(node.Path)
		if !c.driver.Contends(name) {
			c.problemf("its own node %s is no contender", name)
		}
		names = append(names, name)
	}
	for _, foreign := range []string{"", "x", c.lockName, "locks", "_c_-" + c.lockName + "x", "0000000001"} {
		if c.driver.Contends(foreign) {
			c.problemf("the foreign name %q is a contender", foreign)
		}
	}
	c.order(names)
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		some := slices.Clone(names)
		some = slices.DeleteFunc(some, func(string) bool { return random.IntN(3) == 0 })
		if len(some) > 0 {
			c.queue(some, names[nodes-1])
		}
	}
}

// order checks that Compare is a total order.
func (c *check) order(names []string) {
	for _, a := range names {
		for _, b := range names {
			ab, ba := c.driver.Compare(a, b), c.driver.Compare(b, a)
			if a == b && ab != 0 || a != b && (ab == 0 || (ab < 0) == (ba < 0)) {
				c.problemf("Compare(%s, %s) is %d, and the other way round %d", a, b, ab, ba)
			}
			for _, d := range names {
				if ab < 0 && c.driver.Compare(b, d) < 0 && c.driver.Compare(a, d) >= 0 {
					c.problemf("Compare puts %s before %s before %s, and not the first before the last", a, b, d)
				}
			}
		}
	}
}

// queue checks the decisions about a set of contenders, and about the same set with a
// newcomer that was created after them.
func (c *check) queue(contenders []string, newcomer string) {
	slices.SortFunc(contenders, c.driver.Compare)
	admitted := c.admitted(contenders)
	if len(admitted) == 0 {
		c.problemf("lets in none of %d contenders", len(contenders))
	}
	if len(admitted) > c.maxLeases {
		c.problemf("lets in %d of %d contenders at once, expected %d at most", len(admitted), len(contenders), c.maxLeases)
	}
	absent := c.lockName + "-absent"
	if _, err := c.driver.GetsTheLock(slices.Clone(contenders), absent, c.maxLeases); !errors.Is(err, framework.ErrNoNode) {
		c.problemf("for a contender that is not listed: error %v, expected one that matches framework.ErrNoNode", err)
	}
	if slices.Contains(contenders, newcomer) {
		return
	}
	with := append(slices.Clone(contenders), newcomer)
	slices.SortFunc(with, c.driver.Compare)
	if c.overtakes() {
		return
	}
	now := c.admitted(with)
	for _, name := range admitted {
		if slices.Contains(now, newcomer) && !slices.Contains(now, name) {
			c.problemf("lets a newcomer in before one that holds the lock")
		}
	}
}

// admitted returns the contenders that the driver lets in, and checks each decision.
func (c *check) admitted(contenders []string) (names []string) {
	for _, ours := range contenders {
		given := slices.Clone(contenders)
		result, err := c.driver.GetsTheLock(given, ours, c.maxLeases)
		switch {
		case err != nil:
			c.problemf("GetsTheLock of a listed contender: %v", err)
			continue
		case !slices.Equal(given, contenders):
			c.problemf("GetsTheLock changes the contenders that it is given")
		}
		if result.GetsTheLock {
			names = append(names, ours)
			continue
		}
		for j, name := range result.PathsToWatch {
			switch {
			case name == ours:
				c.problemf("has a contender wait for itself")
			case !slices.Contains(contenders, name):
				c.problemf("has a contender wait for %q, which is none", name)
			case slices.Contains(result.PathsToWatch[:j], name):
				c.problemf("has a contender wait for another twice")
			}
		}
	}
	return names
}

// contention has goroutines of several clients take turns.
func (c *check) contention(ctx context.Context, clients []*framework.Framework) {
	const path, workers, turns = "/contention", 5, 10
	overtakes := c.overtakes()
	var inside atomic.Int64
	var all sync.WaitGroup
	for _, client := range clients {
		lock, err := locks.NewLockInternals(client, c.driver, path, c.lockName, c.maxLeases)
		if err != nil {
			c.problemf("%v", err)
			return
		}
		for range workers {
			takeTurns := func() {
				for range turns {
					lease, err := lock.Acquire(ctx)
					if err != nil {
						c.problemf("%v", err)
						return
					}
					if n := inside.Add(1); n > int64(c.maxLeases) && !overtakes {
						c.problemf("%d hold the lock at once, expected %d at most", n, c.maxLeases)
					}
					err = client.Sync(ctx, path) // a round trip, so that a wrong driver can let another one in
					inside.Add(-1)
					if err := errors.Join(err, lease.Release(ctx)); err != nil {
						c.problemf("%v", err)
					}
				}
			}
			all.Go(func() { c.guarded(takeTurns) })
		}
	}
	all.Wait()
	left, err := clients[0].Children(ctx, path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) || len(left) > 0 {
		c.problemf("after all turns %d nodes are left, error %v", len(left), err)
	}
}

// overtakingQueue is a driver whose queue is not itself a lock.
type overtakingQueue interface{ Overtakes() bool }

func (c *check) overtakes() bool {
	o, ok := c.driver.(overtakingQueue)
	return ok && o.Overtakes()
}
