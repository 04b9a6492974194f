// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// leftovers are what a client can leave.
var leftovers = map[string]struct {
	leave func(t *testing.T, client *framework.Framework)
	want  []string
}{
	"session": {
		func(*testing.T, *framework.Framework) {},
		[]string{"{Ephemerals:0 Watches:0 Sessions:1}"},
	},
	"ephemeral": {
		func(t *testing.T, client *framework.Framework) {
			t.Helper()
			must.Get(client.Create(t.Context(), "/forgotten", nil, framework.WithMode(framework.Ephemeral)))(t)
		},
		[]string{"{Ephemerals:1 Watches:0 Sessions:1}", "\t/forgotten\n"},
	},
	"watch": {
		func(t *testing.T, client *framework.Framework) {
			t.Helper()
			var watch *framework.Watch
			must.Get(client.Exists(t.Context(), "/awaited", framework.Watched(&watch)))(t)
		},
		[]string{"{Ephemerals:0 Watches:1 Sessions:1}", "/awaited\n\t0x"},
	},
}

func TestAssertClean(t *testing.T) {
	for name, tt := range leftovers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client := zktest.Client(t, server)
				tt.leave(t, client)
				began := time.Now()
				failure := fails(t, func(tb testing.TB) { zktest.AssertClean(tb, server) })
				for _, want := range tt.want {
					require.Contains(t, failure, want)
				}
				require.Greater(t, time.Since(began), 9*time.Second, "it has waited for the server")
				require.NoError(t, client.Close())
				require.Empty(t, fails(t, func(tb testing.TB) { zktest.AssertClean(tb, server) }))
			})
		})
	}
}

// TestAssertCleanOnZooKeeper does the same at a real server.
func TestAssertCleanOnZooKeeper(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	e := zktest.NewEnsemble(t, 1)
	client := zktest.Client(t, e)
	leftovers["ephemeral"].leave(t, client)
	leftovers["watch"].leave(t, client)
	failure := fails(t, func(tb testing.TB) { zktest.AssertClean(tb, e.Server(0)) })
	require.Contains(t, failure, "{Ephemerals:1 Watches:1 Sessions:1}")
	require.Contains(t, failure, "/forgotten")
	require.Contains(t, failure, "/awaited")
	require.NoError(t, client.Close())
	require.Empty(t, fails(t, func(tb testing.TB) { zktest.AssertClean(tb, e.Server(0)) }))
}

// zookeeper35 makes a server answer mntr as ZooKeeper 3.5 does, which does not count sessions there.
type zookeeper35 struct{ zktest.Admin }

func (s zookeeper35) FourLetterWord(ctx context.Context, word string) (string, error) {
	answer, err := s.Admin.FourLetterWord(ctx, word)
	if word != "mntr" {
		return answer, err
	}
	var kept strings.Builder
	for line := range strings.Lines(answer) {
		if !strings.HasPrefix(line, "zk_global_sessions") {
			kept.WriteString(line)
		}
	}
	return kept.String(), err
}

func TestAssertCleanOnZooKeeper35(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		old := zookeeper35{server}
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		leftovers["watch"].leave(t, client)
		require.Contains(t, fails(t, func(tb testing.TB) { zktest.AssertClean(tb, old) }), "{Ephemerals:0 Watches:1 Sessions:2}")
		require.NoError(t, client.Close())
		require.NoError(t, other.Close())
		zktest.AssertClean(t, old)
	})
}

// TestCleanSessionsOfEveryServer asks all servers of an ensemble, as ZooKeeper 3.5 would answer: a leader and a follower tell
// their sessions in different ways.
func TestCleanSessionsOfEveryServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	e := zktest.NewEnsemble(t, 3)
	client := zktest.Client(t, e)
	for _, server := range e.Servers() {
		backend := zktest.Real(server)
		backend.Admin = zookeeper35{server}
		// A follower hears of the session a little later than the client.
		one := func() bool { return backend.Counts(t).Sessions == 1 }
		require.Eventually(t, one, patience, 10*time.Millisecond, server.String())
	}
	require.NoError(t, client.Close())
	for _, server := range e.Servers() {
		zktest.AssertClean(t, zookeeper35{server})
	}
}

func TestRequires(t *testing.T) {
	for version, applicable := range map[string]bool{"3.5.10": false, "3.6.0": true, "3.10.1": true} {
		server := zktest.Embedded(zktest.NewServer(t, zkserver.WithVersion(version)))
		require.Equal(t, version, server.Version(t).String())
		ran := false
		t.Run(version, func(t *testing.T) {
			server.Requires(t, ensemble.PersistentWatches, ensemble.GetEphemerals)
			ran = true
		})
		require.Equal(t, applicable, ran)
	}
}

// TestAssertCleanWaits for what is on its way out.
func TestAssertCleanWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		time.AfterFunc(5*time.Second, func() { _ = client.Close() })
		zktest.AssertClean(t, server)
	})
}

// TestAssertCleanAfterACutOff: the session of a client that was cut off ends by its timeout.
// The test does not fail for that, and its log says why it took so long.
func TestAssertCleanAfterACutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		proxy := zktest.NewProxy(t, server)
		began := time.Now()
		subtest := &spy{name: t.Name() + "/cut off", context: t.Context()}
		zktest.Client(subtest, proxy, framework.WithSessionTimeout(5*time.Second)) // ends last, and lives shorter
		must.Get(zktest.Client(subtest, proxy).Create(t.Context(), "/mine", nil, framework.WithMode(framework.Ephemeral)))(t)
		proxy.CutOff()
		for _, cleanup := range slices.Backward(subtest.cleanups) {
			cleanup()
		}
		require.Contains(t, subtest.log, "no server has confirmed the end of the session")

		tb := &spy{name: t.Name(), context: t.Context()}
		zktest.AssertClean(tb, server)

		require.Empty(t, tb.failure)
		require.Greater(t, time.Since(began), 15*time.Second, "until the session ended")
	})
}

// admin answers as it is told to.
type admin func() (string, error)

func (a admin) FourLetterWord(context.Context, string) (string, error) { return a() }

// TestCountsOfNoSession are taken when the watches of the sessions before are gone, too.
func TestCountsOfNoSession(t *testing.T) {
	asked := 0
	backend := zktest.At("slow", "127.0.0.1:1")
	backend.Admin = admin(func() (string, error) {
		asked++
		return fmt.Sprintf("zk_ephemerals_count\t0\nzk_watch_count\t%d\nzk_global_sessions\t0\n", max(0, 3-asked)), nil
	})
	require.Equal(t, zktest.Counts{}, backend.Counts(t))
	require.Equal(t, 3, asked)
}

func TestAssertCleanOfAServerThatDoesNotAnswer(t *testing.T) {
	for want, answer := range map[string]admin{
		"out of reach": func() (string, error) { return "", errors.New("out of reach") },
		"mntr has no zk_global_sessions, and dump no number of sessions": func() (string, error) {
			return "zk_ephemerals_count\t0\nzk_watch_count\t0\n", nil
		},
		"no counts in ": func() (string, error) { return "This ZooKeeper instance is not currently serving requests", nil },
		`parsing "many"`: func() (string, error) {
			return "zk_ephemerals_count\tmany\nzk_watch_count\t0\nzk_global_sessions\t0\n", nil
		},
	} {
		require.Contains(t, fails(t, func(tb testing.TB) { zktest.AssertClean(tb, answer) }), want)
	}
}

// TestAt asks a server of which only the address is known.
func TestAt(t *testing.T) {
	embedded := zktest.NewServer(t)
	server := zktest.At("mine", embedded.Addr())
	require.Equal(t, "mine", server.Name())
	require.Equal(t, embedded.Addr(), server.Addr())
	require.NotEqual(t, server.Root(), zktest.At("mine", embedded.Addr()).Root())
	client := zktest.Client(t, server)
	must.Get(client.Create(t.Context(), "/forgotten", nil, framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded()))(t)
	require.Equal(t, zktest.Counts{Ephemerals: 1, Sessions: 1}, server.Counts(t))
	require.Contains(t, must.Get(server.FourLetterWord(t.Context(), "dump"))(t), server.Root()+"/forgotten")
	require.NoError(t, client.Close())
	zktest.AssertClean(t, server)

	require.NoError(t, embedded.Stop())
	require.Contains(t, fails(t, func(tb testing.TB) { server.Counts(tb) }), "counts of mine: ensemble: mntr to "+server.Addr())
}
