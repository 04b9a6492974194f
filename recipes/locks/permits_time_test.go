// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const permitsOfTheDead = 3

// TestSemaphorePermitsOfTheDeadComeBackInTime: holders that die without a word are missed when the
// session timeout has passed, and a tick of the server at most; on a fake clock, wherever
// between two ticks they die.
//
// See CURATOR-595.
func TestSemaphorePermitsOfTheDeadComeBackInTime(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *framework.Framework) locks.InterProcessLock{
		"first": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
			s := must.Get(locks.NewInterProcessSemaphore(client, "/permits", locks.FixedLeases(permitsOfTheDead)))(t)
			return s
		},
		"second": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
			return newSemaphore(t, client, "/permits", locks.FixedLeases(permitsOfTheDead))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for trial := range trials() {
				synctest.Test(t, func(t *testing.T) { permitsComeBack(t, float64(trial)/float64(trials()), open) })
			}
		})
	}
}

// permitsComeBack has holders die when the server is in this phase of its tick, from 0 to 1.
func permitsComeBack(t *testing.T, phase float64, open func(*testing.T, *framework.Framework) locks.InterProcessLock) {
	t.Helper()
	const timeout, tick = 10 * time.Second, 2 * time.Second
	server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithTick(tick))
	time.Sleep(time.Duration(phase * float64(tick)))
	for range permitsOfTheDead {
		client := zktest.Client(t, server, framework.WithSessionTimeout(timeout))
		acquire(t, open(t, client))
		server.Blackhole(client.Session().ID(), zkserver.Both)
	}
	died := time.Now()
	heirs := open(t, zktest.Client(t, server))
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	var leases []*locks.Lease
	for range permitsOfTheDead {
		lease := must.Get(heirs.Acquire(ctx))(t)
		leases = append(leases, lease)
	}
	require.GreaterOrEqual(t, time.Since(died), timeout)
	require.LessOrEqual(t, time.Since(died), timeout+tick)
	releaseAll(t, leases)
}
