// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// belowTheBound is the least session timeout for QuorumErrorPolicy, in ticks, and far below
// what StandardErrorPolicy asks for.
const belowTheBound = 4

// cutoff is one way to cut holders off from the rest of the world, together with the
// server that they are connected to. Both sides believe for a while that they are
// right: the server goes on answering the holders, and the others let their sessions
// expire and give the locks away.
type cutoff struct {
	syncLimit     int // the ticks after which a follower gives up itself and its clients
	aboveTheBound int // a session timeout, in ticks, that is enough for StandardErrorPolicy then

	// side chooses the server on the side of the holders.
	side func(leader *ensemble.Server, followers []*ensemble.Server) *ensemble.Server

	// cut makes the cut and whatever comes after it.
	cut func(t *testing.T, c *cluster)
}

// cluster is three servers and two hosts for clients, that of the holders and that
// of the rivals.
type cluster struct {
	tick             time.Duration
	timing           framework.Option
	network          *ensemble.Network
	side             *ensemble.Server
	others           []*ensemble.Server
	holders, outside *ensemble.Host
}

// TestCutOffWithAFollower cuts holders off together with the follower they are
// connected to. It answers pings until its leader has been silent for syncLimit
// ticks.
func TestCutOffWithAFollower(t *testing.T) {
	cutoff{
		syncLimit: 6, aboveTheBound: 14,
		side: func(_ *ensemble.Server, followers []*ensemble.Server) *ensemble.Server { return followers[0] },
		cut:  func(_ *testing.T, c *cluster) { c.cut() },
	}.run(t)
}

// TestCutOffWithTheLeader cuts holders off together with the leader, and restarts the
// followers, so that they elect another at once. The old one answers everything but
// writes until it misses its followers, which have to be back long before that.
func TestCutOffWithTheLeader(t *testing.T) {
	cutoff{
		syncLimit: 12, aboveTheBound: 20,
		side: func(leader *ensemble.Server, _ []*ensemble.Server) *ensemble.Server { return leader },
		cut: func(t *testing.T, c *cluster) {
			c.cut()
			for _, s := range c.others {
				require.NoError(t, s.Kill())
			}
			errs := make(chan error, len(c.others))
			for _, s := range c.others {
				go func() { errs <- s.Restart(t.Context()) }()
			}
			for range c.others {
				require.NoError(t, <-errs)
			}
		},
	}.run(t)
}

// cutoffTicks are the ticks of the servers in one try of a cut after the other, until one shows
// something. On a busy machine most holders of a short session may lose it before the cut, or
// the servers take longer to agree on the next leader than any holder believes to have its lock.
// So later tries give all more time.
var cutoffTicks = []time.Duration{
	500 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second,
}

// oneCutAtATime: each has many clients, and waits for most of its time.
var oneCutAtATime sync.Mutex

// run makes the cut, and again with other servers until it shows something.
func (c cutoff) run(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Log("three real servers are left to the full run")
		return
	}
	oneCutAtATime.Lock()
	defer oneCutAtATime.Unlock()
	for try, tick := range cutoffTicks {
		made := false
		t.Run(fmt.Sprintf("try %d", try+1), func(t *testing.T) { made = c.tryToCut(t, tick) })
		if made || t.Failed() {
			return
		}
	}
	t.Fatalf("no holder was seen to be separated by a cut, %d times", len(cutoffTicks))
}

// tryToCut lets a rival wait for every lock and looks, in the moment in which the rival
// gets the lock, whether its holder before still believes to have it. That must not be
// under any policy that claims safety. Under SessionErrorPolicy, which does not, it must
// happen, or the cut has not done what it is for. tryToCut reports whether it has.
func (c cutoff) tryToCut(t *testing.T, tick time.Duration) bool {
	t.Helper()
	below, above := belowTheBound*tick, time.Duration(c.aboveTheBound)*tick
	groups := []*holders{
		{policy: framework.QuorumErrorPolicy, timeout: below, count: 8, safe: true},
		{policy: framework.QuorumErrorPolicy, timeout: above, count: 8, safe: true},
		{policy: framework.StandardErrorPolicy, timeout: above, count: 8, safe: true},
		{policy: framework.StandardErrorPolicy, timeout: below, count: 5},
		{policy: framework.SessionErrorPolicy, timeout: below, count: 5},
	}
	s := c.start(t, tick)
	rival := zktest.Client(t, addrs(s.others), framework.WithDialer(s.outside.DialContext), s.timing)

	var acquired sync.WaitGroup
	for _, g := range groups {
		g.acquireAll(t, s, &acquired)
	}
	acquired.Wait()
	for _, g := range groups {
		for _, h := range g.all {
			if h.err != nil { // on a busy machine servers answer too slowly for a short session
				t.Log(h.err)
				closeAll(groups)
				return false
			}
		}
	}
	var entered sync.WaitGroup
	for _, g := range groups {
		g.letRivalsWait(t, rival, &entered)
	}
	<-time.After(above / 2) // all have been pinged for by then, and most have been confirmed several times
	for _, g := range groups {
		g.markLost()
	}
	if slices.ContainsFunc(groups, (*holders).mostAreLost) {
		closeAll(groups)
		entered.Wait()
		return false
	}

	c.cut(t, s)
	entered.Wait()
	for _, g := range groups {
		g.judge(t)
	}
	s.network.HealAll() // so that the clients can be closed in good order
	closeAll(groups)
	return groups[len(groups)-1].overlaps() > 0
}

func (c cutoff) start(t *testing.T, tick time.Duration) *cluster {
	t.Helper()
	servers := zktest.NewEnsemble(t, 3,
		ensemble.WithNetwork(), ensemble.WithTick(tick), ensemble.WithSyncLimit(c.syncLimit))
	leader := must.Get(servers.Leader(t.Context()))(t)
	followers := must.Get(servers.Followers(t.Context()))(t)
	s := &cluster{
		tick:    tick,
		timing:  framework.WithServerTiming(tick, c.syncLimit),
		network: servers.Network(),
		side:    c.side(leader, followers),
	}
	s.others = slices.DeleteFunc(servers.Servers(), func(other *ensemble.Server) bool { return other == s.side })
	s.holders = must.Get(s.network.Join("holders"))(t)
	s.outside = must.Get(s.network.Join("rivals"))(t)
	return s
}

// cut separates the holders and their server from all others.
func (c *cluster) cut() { c.network.Isolate(c.side.Host(), c.holders) }

func addrs(servers []*ensemble.Server) string {
	return fmt.Sprintf("%s,%s", servers[0].Addr(), servers[1].Addr())
}

// closeAll closes the clients at the same time, as some wait for a while for a
// connection.
func closeAll(groups []*holders) {
	var closed sync.WaitGroup
	for _, g := range groups {
		for _, h := range g.all {
			closed.Go(func() {
				if h.client != nil {
					// The session is over; whether the server was told does not matter.
					_ = h.client.Close()
				}
			})
		}
	}
	closed.Wait()
}
