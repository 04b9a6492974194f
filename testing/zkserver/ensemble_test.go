// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// inBubble runs a test with an ensemble on fake time. The leader is server 3; servers 1 and 2 follow.
func inBubble(t *testing.T, test func(t *testing.T, e *zkserver.Ensemble), opts ...zkserver.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := must.Get(zkserver.NewEnsemble(3, append([]zkserver.Option{zkserver.WithoutListener()}, opts...)...))(t)
		defer func() { require.NoError(t, e.Close()) }()
		require.Same(t, e.Server(2), e.Leader())
		require.Equal(t, slices.Delete(e.Servers(), 2, 3), e.Followers())
		test(t, e)
	})
}

// connect connects a raw client to one server.
func connect(t *testing.T, srv *zkserver.Server, want connection) *rawClient {
	t.Helper()
	c := must.Get(tryConnect(t, srv, want))(t)
	return c
}

func tryConnect(t *testing.T, srv *zkserver.Server, want connection) (*rawClient, error) {
	t.Helper()
	nc := must.Get(srv.Dial(t.Context(), "", ""))(t)
	t.Cleanup(func() { nc.Close() })
	if want.timeoutMs == 0 {
		want.timeoutMs = 10_000
	}
	return handshake(nc, want)
}

// The opcodes of these tests.
const (
	opDelete  = 2
	opExists  = 3
	opGetData = 4
	opSetData = 5
	opSync    = 9
)

func exists(t *testing.T, c *rawClient, path string) bool {
	t.Helper()
	err := c.code(t, opExists, body{}.str(path).flag(false))
	require.Contains(t, []int32{0, -101}, err)
	return err == 0
}

func TestEnsembleFollowerLacksWhatWasJustWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		writer, reader := connect(t, e.Server(0), connection{}), connect(t, e.Server(1), connection{})
		catchUp := e.Lag(e.Server(1), time.Second, 0)
		writer.must(t, opCreate, createBody("/a", "", 0))
		require.True(t, exists(t, writer, "/a"), "a client reads what it has written")
		time.Sleep(time.Second - time.Nanosecond)
		require.False(t, exists(t, reader, "/a"))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.True(t, exists(t, reader, "/a"))
		writer.must(t, opDelete, body{}.str("/a").int(-1))
		catchUp()
		require.False(t, exists(t, reader, "/a"), "it has caught up")
	})
}

func TestEnsembleTransactionsLagIsCountedInTransactions(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		writer, reader := connect(t, e.Server(0), connection{}), connect(t, e.Server(1), connection{})
		e.Lag(e.Server(1), 0, 2)
		for _, path := range []string{"/a", "/b", "/c"} {
			writer.must(t, opCreate, createBody(path, "", 0))
		}
		require.True(t, exists(t, reader, "/a"))
		require.False(t, exists(t, reader, "/b"))
		reader.must(t, opCreate, createBody("/d", "", 0)) // its own write does not wait, nor what precedes it
		require.True(t, exists(t, reader, "/c"))
	})
}

// TestEnsembleOrderOfChildren is the same whenever a test is run, and no client may rely on it.
func TestEnsembleOrderOfChildren(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		list := func(s *zkserver.Server) []string {
			r := connect(t, s, connection{}).must(t, 8, body{}.str("/").flag(false))
			return r.fields.strs()
		}
		for n := range 20 {
			connect(t, e.Server(0), connection{}).must(t, opCreate, createBody("/"+strconv.Itoa(n), "", 0))
		}
		before := list(e.Server(0))
		for _, s := range e.Servers() {
			require.Equal(t, before, list(s))
		}
		require.False(t, slices.IsSorted(before))
		connect(t, e.Server(0), connection{}).must(t, opCreate, createBody("/20", "", 0))
		after := slices.DeleteFunc(list(e.Server(0)), func(name string) bool { return name == "20" })
		require.ElementsMatch(t, before, after)
		require.NotEqual(t, before, after, "it differs from one change to the next")
	})
}

func TestEnsembleSyncBringsWhatWasWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		writer, reader := connect(t, e.Server(0), connection{}), connect(t, e.Server(1), connection{})
		e.Lag(e.Server(1), time.Second, 100)
		writer.must(t, opCreate, createBody("/a", "", 0))
		began := time.Now()
		require.False(t, exists(t, reader, "/a"))
		reader.must(t, opSync, body{}.str("/"))
		require.True(t, exists(t, reader, "/a"))
		require.Equal(t, time.Second, time.Since(began))
	})
}

// TestEnsembleRequestsOfAConnectionKeepTheirOrder sends reads behind writes that take time.
func TestEnsembleRequestsOfAConnectionKeepTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		for _, s := range e.Followers() {
			e.Delay(s, e.Leader(), 20*time.Millisecond)
			e.Delay(e.Leader(), s, 30*time.Millisecond)
		}
		c := connect(t, e.Server(0), connection{})
		began := time.Now()
		var sent []int32
		send := func(op int32, b body) {
			xid := must.Get(c.send(op, b))(t)
			sent = append(sent, xid)
		}
		send(opCreate, createBody("/a", "x", 0))
		send(opGetData, body{}.str("/a").flag(true))
		send(opSetData, body{}.str("/a").str("y").int(-1))
		send(opPing, body{})
		send(opSync, body{}.str("/a"))
		send(opGetData, body{}.str("/a").flag(false))
		var zxid int64
		for i, xid := range sent {
			reply := must.Get(c.receive())(t)
			require.Equal(t, xid, reply.xid)
			require.Zero(t, reply.err)
			require.GreaterOrEqual(t, reply.zxid, zxid)
			zxid = reply.zxid
			switch i {
			case 1:
				require.Equal(t, `data "x"`, data(nil, &reply.fields))
			case 2:
				require.Equal(t, []rawEvent{{3, "/a"}}, reply.events, "its watch fires before its own write is answered")
			case 5:
				require.Equal(t, `data "y"`, data(nil, &reply.fields))
			}
		}
		// The request travels for 20 ms, the proposal for 30 to a follower, its acknowledgement for 20, the commit for 30.
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}

func TestEnsembleServerBehindRefusesClient(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(0), connection{})
		catchUp := e.Lag(e.Server(1), time.Hour, 0)
		zxid := c.must(t, opCreate, createBody("/a", "", 0)).zxid
		move := connection{session: c.session, password: c.password, lastZxid: zxid}
		_, err := tryConnect(t, e.Server(1), move)
		require.True(t, ended(err), "got %v", err)
		catchUp()
		moved := connect(t, e.Server(1), move)
		require.Equal(t, c.session, moved.session)
		require.True(t, exists(t, moved, "/a"))
		// The connection that the session has left may read, but not write.
		require.True(t, exists(t, c, "/a"))
		require.EqualValues(t, -118, c.code(t, opDelete, body{}.str("/a").int(-1)))
		c.hungUp(t)
		require.True(t, exists(t, moved, "/a"))
	})
}

func TestEnsembleDeposedLeaderAnswersStaleReadsAndCommitsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		old := e.Leader()
		c, other := connect(t, old, connection{}), connect(t, e.Server(0), connection{})
		c.must(t, opCreate, createBody("/a", "old", 0))
		heal := e.Isolate(old)
		began := time.Now()
		require.NoError(t, e.Server(0).Stop())
		require.NoError(t, e.Server(1).Stop())
		require.NoError(t, e.Server(0).Restart())
		require.NoError(t, e.Server(1).Restart())
		time.Sleep(250 * time.Millisecond)
		require.Same(t, e.Server(1), e.Leader())
		other = connect(t, e.Server(0), connection{session: other.session, password: other.password})
		written := other.must(t, opSetData, body{}.str("/a").str("new").int(-1))
		require.EqualValues(t, 2, written.zxid>>32, "each leader has an epoch of its own")

		// It answers reads, pings, and a sync, since it has proposed nothing.
		c.must(t, opPing, body{})
		c.must(t, opSync, body{}.str("/a"))
		require.Equal(t, `data "old"`, dataOf(t, c, "/a"))
		// A write is not answered, and neither is a sync behind it.
		must.Get(c.send(opCreate, createBody("/lost", "", 0)))(t)
		c.hungUp(t)
		require.Equal(t, 1500*time.Millisecond, time.Since(began), "it gives up after syncLimit ticks, at the next one")
		heal()
		must.Get(e.AwaitLeader(t.Context()))(t)
		back := connect(t, old, connection{session: c.session, password: c.password})
		require.Equal(t, `data "new"`, dataOf(t, back, "/a"))
		require.False(t, exists(t, back, "/lost"))
	})
}

func dataOf(t *testing.T, c *rawClient, path string) string {
	t.Helper()
	reply := c.must(t, opGetData, body{}.str(path).flag(false))
	return data(nil, &reply.fields)
}

// TestEnsembleCutOffFollowerKeepsNoSession shows what makes a client that is connected lose its session.
func TestEnsembleCutOffFollowerKeepsNoSession(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c, watcher := connect(t, e.Server(0), connection{timeoutMs: 2000}), connect(t, e.Server(1), connection{timeoutMs: 10_000})
		c.must(t, opCreate, createBody("/mine", "", 1))
		watcher.must(t, opExists, body{}.str("/mine").flag(true))
		heal := e.Isolate(e.Server(0))
		for range 12 { // for three seconds
			c.must(t, opPing, body{})
			time.Sleep(250 * time.Millisecond)
		}
		require.True(t, exists(t, c, "/mine"))
		require.Equal(t, []rawEvent{{2, "/mine"}}, watcher.events(t), "the leader has ended the session by a transaction")
		must.Get(c.send(opSync, body{}.str("/")))(t)
		time.Sleep(3 * time.Second)
		heal()
		_, err := c.receive()
		require.True(t, ended(err), "the follower has given up, and ends its connections: %v", err)
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.Zero(t, connect(t, e.Server(0), connection{session: c.session, password: c.password}).session)
	}, zkserver.WithSyncLimit(6))
}

func TestEnsembleClosedSessionTakesItsNodesEverywhere(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(0), connection{})
		c.must(t, opCreate, createBody("/mine", "", 1))
		require.EqualValues(t, 1, c.session>>56, "the server that opened it is in its number")
		c.must(t, opClose, body{})
		c.hungUp(t)
		for _, s := range e.Servers() {
			require.False(t, exists(t, connect(t, s, connection{}), "/mine"))
		}
		killed := connect(t, e.Server(1), connection{})
		require.True(t, e.Server(0).KillSession(killed.session))
		killed.hungUp(t)
	})
}

// TestEnsembleSessionsEndTogether: the leader ends the sessions that are due, and meanwhile a majority has logged the end of one.
func TestEnsembleSessionsEndTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		leader := e.Leader()
		first, second := connect(t, leader, connection{}), connect(t, leader, connection{})
		require.Less(t, first.session, second.session, "it is ended first")
		for _, follower := range e.Followers() {
			e.Delay(follower, leader, time.Millisecond)
		}
		require.True(t, leader.KillSession(second.session))
		synctest.Wait()
		leader.ExpireAfter(time.Millisecond)
		time.Sleep(2 * time.Millisecond)
		require.Empty(t, leader.Sessions())
	})
}

func TestEnsembleLeaderThatStopsIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(0), connection{})
		zxid := c.must(t, opCreate, createBody("/a", "", 0)).zxid
		old := e.Leader()
		require.NoError(t, old.Stop())
		c.hungUp(t)
		require.Nil(t, e.Leader())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.Same(t, e.Server(1), e.Leader())
		require.NoError(t, e.Server(1).Stop())
		_, err := tryConnect(t, e.Server(0), connection{session: c.session, password: c.password, lastZxid: zxid})
		require.True(t, ended(err), "no majority: %v", err)
		require.NoError(t, old.Restart())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		require.Same(t, e.Server(0), e.Leader(), "the other one has missed an epoch")
		back := connect(t, old, connection{session: c.session, password: c.password, lastZxid: zxid})
		require.Equal(t, c.session, back.session)
		require.True(t, exists(t, back, "/a"))
		require.EqualValues(t, 3, back.must(t, opCreate, createBody("/b", "", 0)).zxid>>32)
	})
}

func TestEnsembleChangeLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		require.NoError(t, e.ChangeLeader(e.Server(0)))
		require.Same(t, e.Server(0), must.Get(e.AwaitLeader(t.Context()))(t))
		require.ErrorContains(t, e.ChangeLeader(e.Server(0)), "server 1 cannot become leader")
	})
}

// TestEnsemblePausedServers pauses a follower, which nothing waits for, and the leader, which is replaced.
func TestEnsemblePausedServers(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(0), connection{})
		e.Server(1).Pause()
		c.must(t, opCreate, createBody("/a", "", 0))
		time.Sleep(5 * time.Second)
		e.Server(1).Resume()
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.True(t, exists(t, connect(t, e.Server(1), connection{}), "/a"))

		old := e.Leader()
		old.Pause()
		time.Sleep(2 * time.Second)
		require.Same(t, e.Server(1), e.Leader())
		old.Resume()
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.Same(t, e.Server(1), e.Leader())
	})
}

// TestEnsembleWithoutMajorityIsReadOnly has one server left of three.
func TestEnsembleWithoutMajorityIsReadOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(0), connection{})
		c.must(t, opCreate, createBody("/a", "", 0))
		require.NoError(t, e.Server(1).Stop())
		require.NoError(t, e.Server(2).Stop())
		c.hungUp(t)
		time.Sleep(1500 * time.Millisecond)
		_, err := tryConnect(t, e.Server(0), connection{})
		require.True(t, ended(err), "a client that does not accept it: %v", err)
		reader := connect(t, e.Server(0), connection{readOnly: true})
		require.True(t, reader.readOnly)
		require.True(t, exists(t, reader, "/a"))
		require.EqualValues(t, -119, reader.code(t, opDelete, body{}.str("/a").int(-1)))
		require.NoError(t, e.Server(1).Restart())
		reader.hungUp(t)
		must.Get(e.AwaitLeader(t.Context()))(t)
		back := connect(t, e.Server(0), connection{session: c.session, password: c.password})
		require.False(t, back.readOnly)
		require.Equal(t, c.session, back.session)
	})
}

// TestEnsembleLoseUnsynced loses a transaction that was acknowledged.
func TestEnsembleLoseUnsynced(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(2), connection{})
		late := e.Server(0)
		require.ErrorContains(t, e.LoseUnsynced(late), "it runs")
		require.NoError(t, late.Stop())
		require.NoError(t, e.Server(1).Stop())
		require.NoError(t, late.Restart())
		must.Get(e.AwaitLeader(t.Context()))(t)
		c = connect(t, e.Server(2), connection{session: c.session, password: c.password})
		c.must(t, opCreate, createBody("/acknowledged", "", 0))
		require.NoError(t, late.Stop())
		require.NoError(t, e.LoseUnsynced(late))
		require.ErrorContains(t, e.LoseUnsynced(late), "lost it already")
		require.NoError(t, e.Server(2).Stop())
		require.NoError(t, e.Server(1).Restart())
		require.NoError(t, late.Restart())
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.False(t, exists(t, connect(t, late, connection{}), "/acknowledged"))
	})
}

func TestEnsembleRestoreGivesNumbersAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(0), connection{})
		backup := e.Leader().Backup()
		require.NoError(t, e.ChangeLeader(e.Server(0)))
		must.Get(e.AwaitLeader(t.Context()))(t)
		c = connect(t, e.Server(0), connection{session: c.session, password: c.password})
		first := c.must(t, opCreate, createBody("/a", "", 0)).zxid
		require.NoError(t, e.Restore(backup))
		must.Get(e.AwaitLeader(t.Context()))(t)
		c = connect(t, e.Server(0), connection{session: c.session, password: c.password})
		require.False(t, exists(t, c, "/a"))
		require.Equal(t, first, c.must(t, opCreate, createBody("/b", "", 0)).zxid)
	})
}

func TestEnsembleOneWayCutEndsTheFollowersPart(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		heal := e.CutOneWay(e.Leader(), e.Server(0))
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, []*zkserver.Server{e.Server(1)}, e.Followers())
		heal()
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.Len(t, e.Followers(), 2)
	})
}

// TestEnsembleReconfiguration: who has left has no vote, and is not in the configuration, which a client may watch.
func TestEnsembleReconfiguration(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		blank := e.Server(1).Backup()
		client := connect(t, e.Server(2), connection{})
		config := func() string {
			r := client.must(t, opGetData, body{}.str("/zookeeper/config").flag(true))
			return r.fields.str()
		}
		line := func(n string) string {
			return "server." + n + "=127.0.0." + n + ":2888:3888:participant;127.0.0." + n + ":2181\n"
		}
		require.Equal(t, line("1")+line("2")+line("3")+"version=0", config())
		require.ErrorContains(t, e.Join(e.Server(1)), "it has done so already")
		require.ErrorContains(t, e.Leave(e.Server(2)), "it leads")

		require.NoError(t, e.Leave(e.Server(1)))
		require.Equal(t, []rawEvent{{kind: 3, path: "/zookeeper/config"}}, client.events(t))
		require.Equal(t, line("1")+line("3")+"version=100000002", config())
		require.ErrorContains(t, e.Leave(e.Server(0)), "too few others follow the leader")
		require.NoError(t, e.Server(0).Stop())
		require.Nil(t, e.Leader(), "one vote of two, and a server without one")
		require.NoError(t, e.Server(0).Restart())
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.NoError(t, e.Server(1).Stop())
		require.ErrorContains(t, e.Join(e.Server(1)), "it does not follow the leader")
		require.NotNil(t, e.Leader(), "two votes of two")
		client = connect(t, e.Server(0), connection{})
		client.must(t, opCreate, createBody("/a", "", 0))

		require.NoError(t, e.Server(1).Restore(blank, 0), "it has lost its disk")
		require.NoError(t, e.Server(1).Restart())
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.True(t, exists(t, connect(t, e.Server(1), connection{}), "/a"), "it has what the leader has")
		require.Equal(t, line("1")+line("3")+"version=100000002", config(), "it has not joined")
		require.NoError(t, e.Join(e.Server(1)))
		require.Len(t, client.events(t), 1)
		require.Contains(t, config(), line("1")+line("2")+line("3"))
		require.NoError(t, e.Server(0).Stop())
		require.NotNil(t, e.Leader(), "two votes of three")
	})
}

func TestEnsembleOptions(t *testing.T) {
	for want, try := range map[string]func() (*zkserver.Ensemble, error){
		"3 or 5 expected":   func() (*zkserver.Ensemble, error) { return zkserver.NewEnsemble(2) },
		"leave WithAddr":    func() (*zkserver.Ensemble, error) { return zkserver.NewEnsemble(3, zkserver.WithAddr("127.0.0.1:1")) },
		"is for one server": func() (*zkserver.Ensemble, error) { return zkserver.NewEnsemble(3, zkserver.WithKeeper()) },
		"at least 1 expect": func() (*zkserver.Ensemble, error) { return zkserver.NewEnsemble(3, zkserver.WithSyncLimit(0)) },
		"0 to 3 expected":   func() (*zkserver.Ensemble, error) { return zkserver.NewEnsemble(3, zkserver.WithObservers(4)) },
	} {
		_, err := try()
		require.ErrorContains(t, err, want)
	}
	_, err := zkserver.Start(zkserver.WithObservers(1))
	require.ErrorContains(t, err, "NewEnsemble expected")
	e := must.Get(zkserver.NewEnsemble(5))(t)
	require.ErrorContains(t, e.ClockRate(e.Server(0), 0), "0.1 to 10 expected")
	require.Len(t, strings.Split(e.ConnectString(), ","), 5)
	c := rawTo(t, e.Server(4), connection{})
	c.must(t, opCreate, createBody("/a", "", 0))
	_, err = e.Dial(t.Context(), "tcp", "elsewhere:2181")
	require.ErrorContains(t, err, "elsewhere")
	require.NoError(t, e.Close())
	require.NoError(t, e.Close())
	require.Error(t, e.Restore(nil))
}

// slow delays all that the leader sends.
func slow(e *zkserver.Ensemble, d time.Duration) {
	for _, s := range e.Followers() {
		e.Delay(e.Leader(), s, d)
	}
}

// TestEnsembleWhatAFollowerHasLoggedSurvivesTheLeader stops a leader before it has told anybody that a write is committed.
func TestEnsembleWhatAFollowerHasLoggedSurvivesTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		writer, reader := connect(t, e.Server(2), connection{}), connect(t, e.Server(1), connection{})
		e.Delay(e.Server(1), e.Server(2), time.Second)
		heal := e.CutOneWay(e.Server(2), e.Server(0)) // server 1 alone logs it
		must.Get(writer.send(opCreate, createBody("/a", "", 0)))(t)
		synctest.Wait()
		require.False(t, exists(t, reader, "/a"))
		require.NoError(t, e.Server(2).Stop())
		heal()
		e.Delay(e.Server(1), e.Server(2), 0)
		must.Get(e.AwaitLeader(t.Context()))(t)
		require.Same(t, e.Server(1), e.Leader())
		require.True(t, exists(t, connect(t, e.Server(0), connection{}), "/a"))
	})
}

func TestEnsembleLinkKeepsTheOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(2), connection{})
		slow(e, 100*time.Millisecond)
		must.Get(c.send(opCreate, createBody("/a", "", 0)))(t)
		synctest.Wait()
		slow(e, 0)
		must.Get(c.send(opCreate, createBody("/a/b", "", 0)))(t)
		for range 2 {
			require.Zero(t, must.Get(c.receive())(t).err)
		}
		require.True(t, exists(t, connect(t, e.Server(0), connection{}), "/a/b"))
	})
}

// TestEnsemblePausedLeaderExpiresNothing pauses a leader for longer than a session lasts, and less than its followers wait.
func TestEnsemblePausedLeaderExpiresNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Server(0), connection{timeoutMs: 1000})
		leader := e.Leader()
		leader.Pause()
		for range 8 {
			time.Sleep(250 * time.Millisecond)
			c.must(t, opPing, body{})
		}
		require.Len(t, leader.Sessions(), 1)
		leader.Resume()
		synctest.Wait()
		c.must(t, opPing, body{})
		time.Sleep(time.Second)
		c.must(t, opCreate, createBody("/alive", "", 1))
	}, zkserver.WithSyncLimit(6))
}

func TestEnsembleZnodesAreThoseOfTheNewestServer(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		leader := e.Leader()
		catchUp := e.Lag(leader, time.Minute, 0)
		c := connect(t, e.Server(0), connection{})
		c.must(t, opCreate, createBody("/a", "x", 1))
		synctest.Wait()
		znodes := e.Znodes("/a")
		require.Len(t, znodes, 1)
		require.Equal(t, zkserver.Znode{Path: "/a", Data: []byte("x"), Czxid: znodes[0].Czxid, Owner: c.session}, znodes[0])
		require.Empty(t, e.Znodes("/b"))
		catchUp()
		for _, s := range e.Servers() {
			require.NoError(t, s.Stop())
		}
		require.Empty(t, e.Znodes("/a"), "no server leads")
	})
}

// TestEnsembleObserverHasNoVote: an observer serves clients as a follower does, and counts for no majority.
func TestEnsembleObserverHasNoVote(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		observer := e.Server(3)
		require.Contains(t, must.Get(observer.FourLetterWord(t.Context(), "srvr"))(t), "Mode: observer")
		require.ErrorContains(t, e.ChangeLeader(observer), "it is an observer")
		c := connect(t, observer, connection{})
		c.must(t, opCreate, createBody("/a", "", 0))
		require.True(t, exists(t, connect(t, e.Server(0), connection{}), "/a"))

		heal := []func(){e.CutOneWay(e.Server(2), e.Server(0)), e.CutOneWay(e.Server(2), e.Server(1))}
		_, err := c.send(opCreate, createBody("/b", "", 0)) // the leader and the observer have it, of four servers
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, e.Znodes("/b"), "no majority has it")
		c.hungUp(t)
		time.Sleep(2 * time.Second)
		require.Same(t, e.Server(1), e.Leader())
		for _, heal := range heal {
			heal()
		}
		leader := must.Get(e.AwaitLeader(t.Context()))(t)
		require.Same(t, e.Server(1), leader)
		require.False(t, exists(t, connect(t, observer, connection{}), "/b"))

		require.NoError(t, leader.Stop())
		require.NoError(t, e.Server(0).Stop())
		last := len(e.Log())
		time.Sleep(5 * time.Second)
		leads := func(e zkserver.Event) bool { return e.Kind == zkserver.Leads }
		require.False(t, slices.ContainsFunc(e.Log()[last:], leads), "one of three servers with a vote is left")
	}, zkserver.WithObservers(1))
}

// TestEnsembleClockRate: a server counts by its own clock, and the leader's is that of sessions and transactions.
func TestEnsembleClockRate(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		mtime := func() time.Time {
			reply := connect(t, e.Server(0), connection{}).must(t, opSetData, body{}.str("/").str("").int(-1))
			return time.UnixMilli(reply.fields.stat().mtime)
		}
		lasts := func() time.Duration {
			time.Sleep(time.Second) // the tick that is under way is an old one
			began := time.Now()
			connect(t, e.Server(0), connection{timeoutMs: 4000}).hungUp(t)
			return time.Since(began)
		}
		require.InDelta(t, 4.25, lasts().Seconds(), 0.26, "the timeout, and up to a tick")
		require.WithinDuration(t, time.Now(), mtime(), time.Millisecond)

		require.NoError(t, e.ClockRate(e.Leader(), 2))
		require.InDelta(t, 2.125, lasts().Seconds(), 0.15)
		require.NoError(t, e.ClockRate(e.Leader(), 0.5))
		require.InDelta(t, 8.5, lasts().Seconds(), 0.6)
		require.NoError(t, e.ClockRate(e.Leader(), 1))
		require.WithinDuration(t, time.Now().Add(-2*time.Second), mtime(), 1500*time.Millisecond, "it stays behind")

		follower := e.Server(0)
		require.NoError(t, e.ClockRate(follower, 4))
		c := connect(t, follower, connection{})
		e.CutOneWay(e.Leader(), follower)
		began := time.Now()
		c.hungUp(t)
		require.InDelta(t, 0.375, time.Since(began).Seconds(), 0.126, "two ticks of its own, at a beat")
	})
}

// TestEnsembleServersOfOthers are refused, before anything is done to them.
func TestEnsembleServersOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		other := must.Get(zkserver.NewEnsemble(3, zkserver.WithoutListener()))(t)
		defer func() { require.NoError(t, other.Close()) }()
		alone := must.Get(zkserver.Start(zkserver.WithoutListener()))(t)
		defer func() { require.NoError(t, alone.Close()) }()
		mine := e.Server(0)
		for name, s := range map[string]*zkserver.Server{"nil": nil, "that stands alone": alone, "of another ensemble": other.Server(0)} {
			for call, err := range map[string]error{
				"ChangeLeader": e.ChangeLeader(s), "ClockRate": e.ClockRate(s, 2), "LoseUnsynced": e.LoseUnsynced(s),
			} {
				require.ErrorContains(t, err, "zkserver: "+call+" of a server that is nil or of another ensemble", name)
			}
			for call, fails := range map[string]func(){
				"Cut": func() { e.Cut(mine, s) }, "CutOneWay": func() { e.CutOneWay(s, mine) }, "Isolate": func() { e.Isolate(mine, s) },
				"Delay": func() { e.Delay(mine, s, time.Second) }, "Lag": func() { e.Lag(s, time.Second, 0) },
			} {
				require.PanicsWithValue(t,
					"zkserver: "+call+" of a server that is nil or of another ensemble, expected one of this ensemble", fails, name)
			}
		}
		e.Isolate()() // of none
	})
}

// TestEnsembleDump: only the leader knows when sessions expire, and says so.
func TestEnsembleDump(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		connect(t, e.Server(0), connection{timeoutMs: 4000})
		for _, s := range e.Servers() {
			said := must.Get(s.FourLetterWord(t.Context(), "dump"))(t)
			sessions, _, _ := strings.Cut(said, "ephemeral nodes dump:")
			if s == e.Leader() {
				require.Contains(t, sessions, "1 expire at ")
				continue
			}
			require.Regexp(t, `Global Sessions\(1\):\n0x[0-9a-f]+\t4000ms\n$`, sessions)
		}
	})
}

// TestEnsembleWhatWasHeldArrivesInOrder: a link was cut when one message was sent, and its receiver was paused when the next one was.
// The link is healed before the server goes on.
func TestEnsembleWhatWasHeldArrivesInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, e *zkserver.Ensemble) {
		c := connect(t, e.Leader(), connection{})
		heal := e.CutOneWay(e.Leader(), e.Server(0))
		c.must(t, opCreate, createBody("/a", "x", 0))
		e.Server(0).Pause()
		c.must(t, opDelete, body{}.str("/a").int(-1))
		heal()
		synctest.Wait()
		e.Server(0).Resume()
		synctest.Wait()
		require.False(t, exists(t, connect(t, e.Server(0), connection{}), "/a"))
	})
}
