// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/page"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// "make test-long" has 10,000.
var manyLocks = flag.Int("locks", 1000, "show this `number` of locks to many viewers")

// TestContentionIsShown: in figures for all locks, and as a picture of a lock's last minute that says the same in words.
func TestContentionIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		handler := page.Handler(client, "/locks")
		mutex := func(label string) *locks.InterProcessMutex {
			m := must.Get(locks.NewInterProcessMutex(zktest.Client(t, server), "/locks/report", locks.WithLabel(label)))(t)
			return m
		}
		const target = "/?lock=/locks/report"
		first, second := mutex("first"), mutex("<second>")
		lease := must.Get(first.Acquire(t.Context()))(t)
		require.Contains(t, get(t, handler, target).Body.String(), "The last minute is not known yet")
		require.Contains(t, get(t, handler, "/").Body.String(), "Figures come after ten seconds")
		time.Sleep(5 * time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			lease, err := second.Acquire(context.Background())
			if assert.NoError(t, err) {
				time.Sleep(10 * time.Second)
				assert.NoError(t, lease.Release(context.Background()))
			}
		})
		time.Sleep(20 * time.Second)
		require.NoError(t, lease.Release(t.Context()))
		wg.Wait()
		time.Sleep(5 * time.Second)
		body := get(t, handler, target).Body.String() // forty seconds after the beginning
		require.Regexp(t, `<td[^>]*>first \([^<]*</td><td[^>]*>1</td><td[^>]*>25s</td><td[^>]*>0s</td><td[^>]*>0</td>`, body)
		require.Regexp(t, `<td[^>]*>&lt;second&gt; \([^<]*</td><td[^>]*>1</td><td[^>]*>10s</td><td[^>]*>20s</td><td[^>]*>0</td>`, body)
		require.Regexp(t, `aria-label="held from 40.0 seconds before until 15.0 seconds before"><path class="waits" d=""/><path class="holds" d="M200 0h250v12H200z"/>`, body)
		require.Regexp(t, `aria-label="held from 15.0 seconds before until 5.0 seconds before; waited from 35.0 seconds before until 15.0 seconds before">`+
			`<path class="waits" d="M250 4h200v4H250z"/><path class="holds" d="M450 0h100v12H450z"/>`, body)
		require.Regexp(t, `What was before \d\d:\d\d:\d\d is not known`, body)

		time.Sleep(30 * time.Second)
		synctest.Wait() // the figures are taken now
		get(t, handler, "/")
		body = get(t, handler, "/").Body.String()
		figures := regexp.MustCompile(`(?s)<h2>Contention from .*?</section>`).FindString(body)
		require.Regexp(t, `<a href="\?lock=%2flocks%2freport">/locks/report</a></td><td[^>]*>mutex</td><td[^>]*>2</td><td[^>]*>0.2, 1</td>`, figures)
		require.Regexp(t, `<td[^>]*>42%</td><td[^>]*>0</td><td[^>]*>25s first \([^<]*</td></tr>`, figures)
	})
}

// TestContentionEndsAfterTheLastViewer, and begins again with the next one.
func TestContentionEndsAfterTheLastViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		handler := page.Handler(zktest.Client(t, server), "/")
		ctx, leave := context.WithCancel(t.Context())
		for range 2 {
			get(t, handler, "/")
			synctest.Wait()
			require.Positive(t, server.Stats().Watches)
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			require.Zero(t, server.Stats().Watches)
		}
		view(ctx, handler, "/?events") // a viewer that sees no change stays
		get(t, handler, "/")
		time.Sleep(10 * time.Minute)
		leave()
		synctest.Wait()
		require.Positive(t, server.Stats().Watches)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.Zero(t, server.Stats().Watches)
	})
}

// TestContentionWhichCannotBeFollowed is said, and tried again.
func TestContentionWhichCannotBeFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		handler := page.Handler(zktest.Client(t, server), "/")
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpAddWatch {
				return zkserver.FailWith(-102) // no permission
			}
			return zkserver.Pass
		})
		get(t, handler, "/")
		synctest.Wait()
		require.Contains(t, get(t, handler, "/").Body.String(), "Contention is not known: inspect: ")
		remove()
		time.Sleep(10 * time.Second)
		get(t, handler, "/")
		time.Sleep(11 * time.Second)
		require.Contains(t, get(t, handler, "/").Body.String(), "No contender had to wait")
	})
}

// TestContentionShowsSome: of many locks those with the most waiters, and of many owners those that were there for longest.
// Clients that are gone are losses.
func TestContentionShowsSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		killed, proxy := zktest.ClientViaProxy(t, server, framework.WithSessionTimeout(12*time.Second))
		handler := page.Handler(client, "/")
		get(t, handler, "/?lock=/")
		synctest.Wait()
		contend := func(of *framework.Framework, lock, owner int) {
			must.Get(of.Create(t.Context(), fmt.Sprintf("/locks/%d/lock-", lock), fmt.Appendf(nil, "host/%d owner-%d", owner, owner),
				framework.WithMode(framework.EphemeralSequential), framework.WithProtection(), framework.CreatingParentsIfNeeded()))(t)
		}
		contend(killed, 0, 0)
		time.Sleep(500 * time.Millisecond)
		for owner := 1; owner < 25; owner++ {
			contend(client, 0, owner)
		}
		for lock := 1; lock < 25; lock++ {
			contend(client, lock, 0)
			contend(client, lock, 1)
		}
		time.Sleep(6 * time.Second)
		body := get(t, handler, "/?lock=/locks/0").Body.String()
		require.Contains(t, body, "5 more owners are not shown")
		require.Regexp(t, `<tbody[^>]*><tr[^>]*><td[^>]*>owner-0 \(host/0\)</td>`, body)
		time.Sleep(5 * time.Second)
		body = get(t, handler, "/").Body.String()
		require.Contains(t, body, "and 5 more that are not shown")
		require.Regexp(t, `>/locks/0</a></td><td[^>]*>mutex</td><td[^>]*>0</td><td[^>]*>22\.\d, 24</td>`, body)
		proxy.Refuse(true)
		proxy.Cut()
		time.Sleep(30 * time.Second)
		body = get(t, handler, "/?lock=/locks/0").Body.String()
		require.Regexp(t, `<td[^>]*>owner-0 \(host/0\)</td><td[^>]*>1</td><td[^>]*>[\d.]*s</td><td[^>]*>0s</td><td[^>]*>1</td>`, body)
	})
}

// TestContentionOfManyLocksForManyViewers: no viewer costs a request, or much memory.
func TestContentionOfManyLocksForManyViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const viewers, rounds = 30, 2
		server := zktest.NewServer(t, zkserver.WithoutListener())
		other, client := zktest.Client(t, server), zktest.Client(t, server)
		var ops []framework.Op
		for i := range *manyLocks {
			path := fmt.Sprintf("/locks/%05d/_c_%08x-5bf2-4c4b-8f0e-3c9a5d1f7b21-lock-%010d", i, i, i)
			ops = append(ops, framework.CreateOp(path, []byte("host/7 holder"), framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))
		}
		must.Get(other.Bulk(t.Context(), ops))(t)
		var sent, watches atomic.Int64
		defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.SessionID != client.Session().ID():
			case r.Op == zkserver.OpAddWatch:
				watches.Add(1)
			case r.Op != zkserver.OpPing && r.Op != zkserver.OpExists: // signs of life
				sent.Add(1)
			}
			return zkserver.Pass
		})()
		handler := page.Handler(client, "/")
		ctx, leave := context.WithCancel(t.Context())
		var streams []*viewer
		for range viewers {
			streams = append(streams, view(ctx, handler, "/?events"))
		}
		for _, v := range streams {
			require.Equal(t, comment, <-v.chunks)
		}
		before := heap()
		for i := range rounds {
			must.Get(other.Create(t.Context(), fmt.Sprintf("/locks/%05d/lock-", i), []byte("host/8 waiter"),
				framework.WithMode(framework.EphemeralSequential), framework.WithProtection()))(t)
			var wg sync.WaitGroup
			for _, target := range []string{"/", "/?lock=/locks/00001"} {
				for range viewers {
					wg.Go(func() { assert.Equal(t, http.StatusOK, get(t, handler, target).Code) })
				}
			}
			wg.Wait()
			time.Sleep(20 * time.Second)
		}
		grown := heap() - before
		require.Contains(t, get(t, handler, "/").Body.String(), "Contention from")
		// A walk reads names and contenders. Walks are one for each round, two searches for deadlocks, and one to follow.
		require.LessOrEqual(t, sent.Load(), (3*rounds+2)*int64(3**manyLocks)+1000)
		require.Equal(t, int64(1), watches.Load(), "all streams and the followed locks have one")
		require.Less(t, grown, int64(8<<20+4096**manyLocks))
		t.Logf("%d locks, %d viewers: %d requests, heap grown by %d", *manyLocks, viewers, sent.Load(), grown)
		leave()
		for _, v := range streams {
			<-v.ended
		}
	})
}
