package locks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// The timing of the servers that are cut off from each other. A follower gives its
// clients up after cutoffSyncLimit ticks.
const (
	cutoffTick      = 500 * time.Millisecond
	cutoffSyncLimit = 6

	// StandardErrorPolicy asks for 10.5 ticks here, see its documentation.
	belowTheBound = 4 * cutoffTick
	aboveTheBound = 14 * cutoffTick

	// settling is how long holders hold before the cut: all have been pinged for
	// then, and most have confirmed their sessions several times.
	settling = aboveTheBound / 2
)

// cutoff is one way to cut holders off from the rest of the world, together with the
// server that they are connected to. Both sides believe for a while that they are
// right: the server goes on answering the holders, and the others let their sessions
// expire and give the locks away.
type cutoff struct {
	// side chooses the server on the side of the holders.
	side func(leader *ensemble.Server, followers []*ensemble.Server) *ensemble.Server

	// cut makes the cut and whatever comes after it.
	cut func(t *testing.T, c *cluster)

	// standardIsSafe tells whether StandardErrorPolicy claims safety above its bound.
	standardIsSafe bool
}

// cluster is three servers and two hosts for clients, that of the holders and that
// of the rivals.
type cluster struct {
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
		side:           firstFollower,
		cut:            func(_ *testing.T, c *cluster) { c.cut() },
		standardIsSafe: true,
	}.run(t)
}

// TestCutOffWithTheLeader cuts holders off together with the leader, and restarts the
// followers, so that they elect another at once. The old one answers everything but
// writes until it misses its followers.
func TestCutOffWithTheLeader(t *testing.T) {
	cutoff{
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
		standardIsSafe: true,
	}.run(t)
}

// TestCutOffFromTheFollowerToo cuts holders off together with their follower, and from
// that one shortly before it would tell them. They find out by themselves, two
// thirds of the session timeout after its last answer, which is too late under
// StandardErrorPolicy with any timeout.
func TestCutOffFromTheFollowerToo(t *testing.T) {
	cutoff{
		side: firstFollower,
		cut: func(_ *testing.T, c *cluster) {
			c.cut()
			<-time.After((cutoffSyncLimit - 1) * cutoffTick)
			c.network.Cut(c.holders, c.side.Host())
		},
	}.run(t)
}

func firstFollower(_ *ensemble.Server, followers []*ensemble.Server) *ensemble.Server {
	return followers[0]
}

// run lets a rival wait for every lock and looks, in the moment in which it gets it,
// whether the one who held it before still believes so. That must not be under any
// policy that claims safety. Under SessionErrorPolicy, which does not, it must
// happen, or the cut has not done what it is for.
func (c cutoff) run(t *testing.T) {
	if testing.Short() {
		t.Log("three real servers are left to the full run")
		return
	}
	groups := []*holders{
		{policy: framework.QuorumErrorPolicy, timeout: belowTheBound, count: 20, safe: true},
		{policy: framework.QuorumErrorPolicy, timeout: aboveTheBound, count: 20, safe: true},
		{policy: framework.StandardErrorPolicy, timeout: aboveTheBound, count: 20, safe: c.standardIsSafe},
		{policy: framework.StandardErrorPolicy, timeout: belowTheBound, count: 10},
		{policy: framework.SessionErrorPolicy, timeout: belowTheBound, count: 10},
	}
	s := startCluster(t, c.side)
	rival := zktest.Client(t, addrs(s.others), framework.WithDialer(s.outside.DialContext), cutoffTiming())

	var acquired sync.WaitGroup
	for _, g := range groups {
		g.acquireAll(t, s, &acquired)
	}
	acquired.Wait()
	var entered sync.WaitGroup
	for _, g := range groups {
		g.letRivalsWait(t, rival, &entered)
	}
	<-time.After(settling)
	for _, g := range groups {
		g.markLost()
	}

	c.cut(t, s)
	entered.Wait()
	for _, g := range groups {
		g.judge(t)
	}
	require.NotZero(t, groups[len(groups)-1].overlaps(), "no cut has been seen to separate anybody")
	s.network.HealAll() // so that the clients can be closed in good order
	closeAll(groups)
}

func cutoffTiming() framework.Option { return framework.WithServerTiming(cutoffTick, cutoffSyncLimit) }

func startCluster(t *testing.T, side func(*ensemble.Server, []*ensemble.Server) *ensemble.Server) *cluster {
	t.Helper()
	servers := zktest.NewEnsemble(t, 3,
		ensemble.WithNetwork(), ensemble.WithTick(cutoffTick), ensemble.WithSyncLimit(cutoffSyncLimit))
	leader, err := servers.Leader(t.Context())
	require.NoError(t, err)
	followers, err := servers.Followers(t.Context())
	require.NoError(t, err)
	s := &cluster{network: servers.Network(), side: side(leader, followers)}
	s.others = slices.DeleteFunc(servers.Servers(), func(other *ensemble.Server) bool { return other == s.side })
	s.holders, err = s.network.Join("holders")
	require.NoError(t, err)
	s.outside, err = s.network.Join("rivals")
	require.NoError(t, err)
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
				// The session is over; whether the server was told does not matter.
				_ = h.client.Close()
			})
		}
	}
	closed.Wait()
}
