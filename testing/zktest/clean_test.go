package zktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
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
			_, err := client.Create(t.Context(), "/forgotten", nil, framework.WithMode(framework.Ephemeral))
			require.NoError(t, err)
		},
		[]string{"{Ephemerals:1 Watches:0 Sessions:1}", "\t/forgotten\n"},
	},
	"watch": {
		func(t *testing.T, client *framework.Framework) {
			t.Helper()
			var watch *framework.Watch
			_, err := client.Exists(t.Context(), "/awaited", framework.Watched(&watch))
			require.NoError(t, err)
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

// TestAssertCleanWaits for what is on its way out.
func TestAssertCleanWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		time.AfterFunc(5*time.Second, func() { _ = client.Close() })
		zktest.AssertClean(t, server)
	})
}

// admin answers as it is told to.
type admin func() (string, error)

func (a admin) FourLetterWord(context.Context, string) (string, error) { return a() }

func TestAssertCleanOfAServerThatDoesNotAnswer(t *testing.T) {
	for want, answer := range map[string]admin{
		"out of reach":  func() (string, error) { return "", errors.New("out of reach") },
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
	_, err := client.Create(t.Context(), "/forgotten", nil, framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	require.Equal(t, zktest.Counts{Ephemerals: 1, Sessions: 1}, server.Counts(t))
	answer, err := server.FourLetterWord(t.Context(), "dump")
	require.NoError(t, err)
	require.Contains(t, answer, server.Root()+"/forgotten")
	require.NoError(t, client.Close())
	zktest.AssertClean(t, server)

	require.NoError(t, embedded.Stop())
	require.Contains(t, fails(t, func(tb testing.TB) { server.Counts(tb) }), "counts of mine: ensemble: mntr to "+server.Addr())
}
