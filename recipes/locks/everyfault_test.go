// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
)

// faultedPolicies returns the policies of the caller. Its holds end with every connection, or
// outlive the connection with the session; then the caller must find out what has happened. What
// QuorumErrorPolicy adds is an earlier end by the clock, which faketime_test.go has. With -short
// there is only the first policy, the default.
func faultedPolicies() []framework.ErrorPolicy {
	if testing.Short() && !seeds.Long() {
		return []framework.ErrorPolicy{framework.StandardErrorPolicy}
	}
	return []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy}
}

// faultedCall is a call of a recipe, in one situation.
type faultedCall struct {
	name     string
	of       []string // the methods that it calls, as Type.Method
	requests int      // it makes so many when nothing goes wrong, with the requests of what it has acquired
	prepare  func(c *faultCell) func(ctx context.Context) error
	may      []func(error) bool // how it may fail although its context goes on
	fails    bool               // it never succeeds
}

// row returns the call as a row of the tables of package hardship.
func (f faultedCall) row() hardship.Call {
	return hardship.Call{Name: f.name, Of: f.of, Requests: f.requests, Fails: f.fails, Prepare: f.onStage, May: f.mayEnd}
}

// mayEnd reports whether the call may end so although its context goes on.
func (f faultedCall) mayEnd(err error) bool {
	return slices.ContainsFunc(f.may, func(is func(error) bool) bool { return is(err) })
}

// faultCell is one run of a call: its caller is a client of its own, as is the rival.
type faultCell struct {
	t      *testing.T
	name   string
	path   string // which no other cell uses
	server *zkserver.Server
	ours   *framework.Framework
	theirs *framework.Framework

	soon time.Duration // the next acquisition waits no longer

	mu       sync.Mutex
	passesOn bool // what is acquired is given back at once, as by many who make the call together

	held   []*locks.Lease           // what the caller has, before the call and by it
	rivals []locks.InterProcessLock // of theirs; kept out as long as anything held is valid
	again  []locks.InterProcessLock // of ours; to be acquired afterwards
	later  func()                   // what the rival does while the call waits; may be nil
	tidy   func()                   // what the rival does afterwards; may be nil
	check  func(err error)          // what else follows from the outcome; may be nil
}

const (
	whileItWaits = 100 * time.Millisecond // long enough for all that a waiter does by itself
	whileItHolds = 10 * time.Millisecond  // and for what a holder does
	atOnce       = time.Second            // the next acquisition waits no longer, by a fake clock
)

// cellsEnv names the environment variable with the file that is told how many cells there were: of a test
// that passes go test shows no log.
const cellsEnv = "CURATOR_CELLS"

// TestEveryFaultAtEveryRequest makes every call that a recipe has, in every situation,
// with every fate of every request that it makes. Each time the call ends as it is
// documented to, no other client holds what it holds, and then the rival gets it, and
// the caller again.
//
// See zk-ruby#49, zk-ruby#51, aiozk#34, kazoo#429, CURATOR-315, CURATOR-335, CURATOR-462,
// etcd#21128, redisson#7272 and redisson#1626.
func TestEveryFaultAtEveryRequest(t *testing.T) {
	rows, policies := everyFaultCalls(), faultedPolicies()
	cells := hardship.EveryFault(t, rows, policies...)
	count := fmt.Sprintf("%d cells: %d calls, each of their requests, %d fates; policies: %v", cells, len(rows), len(hardship.Fates), policies)
	t.Log(count)
	if file := os.Getenv(cellsEnv); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(count+"\n"), 0o600))
	}
}

func everyFaultCalls() (rows []hardship.Call) {
	for _, call := range faultedCalls() {
		rows = append(rows, call.row())
	}
	return rows
}

// isLost allows for a lease that was lost with the connection.
func isLost(err error) bool {
	var lost *locks.LostError
	return errors.As(err, &lost)
}

func isNotAcquired(err error) bool { return errors.Is(err, locks.ErrNotAcquired) }

// requireAlone checks that a rival gets the lock only when nothing that was held is valid
// any more.
func (c *faultCell) requireAlone() {
	for _, rival := range c.rivals {
		lease, err := rival.TryAcquire(context.Background())
		if err != nil {
			require.ErrorIs(c.t, err, locks.ErrNotAcquired, c.name)
			continue
		}
		for _, held := range c.held {
			require.Error(c.t, held.Err(), "%s: %v is held, and so is %v", c.name, held, lease)
		}
		require.NoError(c.t, lease.Release(context.Background()), c.name)
	}
}

// end releases what is held and has first the rivals and then the caller acquire.
func (c *faultCell) end() {
	for _, lease := range slices.Backward(c.held) {
		valid := lease.Err() == nil
		if err := lease.Release(context.Background()); valid || err != nil && !isLost(err) {
			require.NoError(c.t, err, c.name)
		}
	}
	if c.tidy != nil {
		c.tidy()
	}
	for _, lock := range slices.Concat(c.rivals, c.again) {
		ctx, cancel := context.WithTimeout(context.Background(), c.soon)
		lease, err := lock.Acquire(ctx)
		require.NoError(c.t, err, "%s: afterwards", c.name)
		require.NoError(c.t, lease.Release(ctx), "%s: afterwards", c.name)
		cancel()
	}
}

// syncAll has the clients talk to the server, so that all their goroutines run.
func syncAll(t *testing.T, clients ...*framework.Framework) {
	t.Helper()
	for _, client := range clients {
		require.NoError(t, client.Sync(context.Background(), "/"))
	}
	synctest.Wait()
}
