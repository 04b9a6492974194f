// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// spy is a test that is allowed to fail.
type spy struct {
	testing.TB // panics for what the spy does not have

	name     string
	context  context.Context
	cleanups []func()
	failure  string
	log      string
}

func (s *spy) Helper()                  {}
func (s *spy) Name() string             { return s.name }
func (s *spy) Context() context.Context { return s.context }
func (s *spy) Cleanup(f func())         { s.cleanups = append(s.cleanups, f) }

func (s *spy) Fatal(args ...any)                 { s.fail(fmt.Sprint(args...)) }
func (s *spy) Fatalf(format string, args ...any) { s.fail(fmt.Sprintf(format, args...)) }
func (s *spy) Errorf(format string, args ...any) { s.failure = fmt.Sprintf(format, args...) }

func (s *spy) Logf(format string, args ...any) { s.log += fmt.Sprintf(format, args...) + "\n" }

func (s *spy) fail(text string) {
	s.failure = text
	runtime.Goexit()
}

// fails runs f on a spy and returns what it failed with, "" if it did not.
func fails(t *testing.T, f func(tb testing.TB)) string {
	t.Helper()
	s := &spy{context: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, cleanup := range s.cleanups {
				cleanup()
			}
		}()
		f(s)
	}()
	<-done
	return s.failure
}

const patience = 2 * time.Minute

func TestEachBackend(t *testing.T) {
	roots := make(map[string]bool)
	var names []string
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		names = append(names, server.Name())
		require.Equal(t, "TestEachBackend/"+server.Name(), t.Name())
		require.False(t, roots[server.Root()], "a chroot is used once")
		roots[server.Root()] = true
		require.Equal(t, server.Addr()+server.Root(), server.ConnectString())
		require.Equal(t, "proxy:1"+server.Root(), server.ConnectStringVia("proxy:1"))
		client := zktest.Client(t, server.ConnectString())
		must.Get(client.Create(t.Context(), "/a", nil, framework.CreatingParentsIfNeeded()))(t)
	})
	want := []string{"zkserver", "zookeeper"}
	if testing.Short() {
		want = want[:1]
	}
	require.Equal(t, want, names)
}

func TestCounts(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		before := server.Counts(t)
		client := zktest.Client(t, server.Addr())
		must.Get(client.Create(t.Context(), server.Root(), nil, framework.WithMode(framework.Ephemeral)))(t)
		var watch *framework.Watch
		must.Get(client.Exists(t.Context(), "/none", framework.Watched(&watch)))(t)
		after := zktest.Counts{
			Ephemerals: before.Ephemerals + 1, Watches: before.Watches + 1, Sessions: before.Sessions + 1,
		}
		require.Equal(t, after, server.Counts(t))
		server.AwaitCounts(t, after, 0)
		for _, want := range []zktest.Counts{
			{Ephemerals: before.Ephemerals, Watches: after.Watches, Sessions: after.Sessions},
			{Ephemerals: after.Ephemerals, Watches: before.Watches, Sessions: after.Sessions},
			{Ephemerals: after.Ephemerals, Watches: after.Watches, Sessions: before.Sessions},
		} {
			failure := fails(t, func(tb testing.TB) { server.AwaitCounts(tb, want, 30*time.Millisecond) })
			require.Contains(t, failure, fmt.Sprintf("has %+v left after 30ms, want at most %+v", after, want))
		}
		require.NoError(t, client.Close())
		server.AwaitCounts(t, before, patience)
	})
}

func TestCountsOfAServerThatIsGone(t *testing.T) {
	server := zktest.At("a server that is gone", "127.0.0.1:1")
	require.Contains(t, fails(t, func(tb testing.TB) { server.Counts(tb) }), "counts of a server that is gone")
}

func TestKillSession(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		observer := zktest.Client(t, server.Addr())
		proxy := zktest.NewProxy(t, server.Addr())
		for _, c := range []struct {
			connect string
			servers []string
		}{{server.Addr(), nil}, {proxy.Addr(), []string{server.Addr()}}} {
			client := zktest.Client(t, c.connect)
			must.Get(client.Create(t.Context(), server.Root(), nil, framework.WithMode(framework.Ephemeral)))(t)
			session := client.Session()
			if c.servers != nil {
				proxy.Blackhole(zkproxy.Both)
			}
			zktest.KillSession(t, client, c.servers...)
			require.Nil(t, must.Get(observer.Exists(t.Context(), server.Root()))(t), "gone when KillSession returns")
			proxy.Heal()
			select {
			case <-session.Done():
			case <-time.After(patience):
				require.FailNow(t, "the client has not learned of it")
			}
		}
	})
}

func TestKillSessionFails(t *testing.T) {
	server := zktest.NewServer(t)
	client := must.Get(framework.New(server.Addr()))(t)
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.KillSession(tb, client) }), "no session to kill")

	client = zktest.Client(t, server.Addr())
	other := zktest.NewServer(t)
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.KillSession(tb, client, other.Addr()) }), "does not know the session")
	require.NoError(t, other.Stop())
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.KillSession(tb, client, other.Addr()) }), "refused")
	require.NoError(t, client.Session().Err())
	zktest.KillSession(t, client, other.Addr(), server.Addr()) // the first that can
}

func TestZktestServerThatCannotStart(t *testing.T) {
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.NewServer(tb, zkserver.WithTick(0)) }), "zktest: ")
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.NewEnsemble(tb, 2) }), "zktest: ")
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.NewProxy(tb, "nonsense") }), "zktest: ")
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.Client(tb, "") }), "zktest: ")
}

// TestZktestFixturesEndWithTheirTest: whoever asked for them need not close them.
func TestZktestFixturesEndWithTheirTest(t *testing.T) {
	var client *framework.Framework
	t.Run("a test", func(t *testing.T) {
		server := zktest.NewServer(t)
		proxy := zktest.NewProxy(t, server.Addr())
		client = zktest.Client(t, proxy.Addr())
	})
	_, err := client.Get(t.Context(), "/")
	require.ErrorIs(t, err, framework.ErrClosed)
}

// inside is a TestRunner whose tests look at what they are run with.
type inside func() int

func (f inside) Run() int { return f() }

func TestWithSharedServersPassesTheResultOn(t *testing.T) {
	require.Equal(t, 0, zktest.WithSharedServers(inside(func() int { return 0 })).Run())
	require.Equal(t, 3, zktest.WithSharedServers(inside(func() int { return 3 })).Run())
}

// TestZktestBackendInMemory is reached without a listener, also through a proxy.
func TestZktestBackendInMemory(t *testing.T) {
	server := zktest.Embedded(zktest.NewServer(t, zkserver.WithoutListener()))
	must.Get(zktest.Client(t, server).Create(t.Context(), "/a", nil, framework.CreatingParentsIfNeeded()))(t)
	require.NotNil(t, must.Get(zktest.Client(t, zktest.NewProxy(t, server)).Exists(t.Context(), server.Root()+"/a"))(t))
}

// A busy machine must not cost a test its session, whatever the tick.
func TestZktestServersGrantLongSessions(t *testing.T) {
	grants := func(t *testing.T, server string) {
		t.Helper()
		require.Equal(t, 30*time.Second, zktest.Client(t, server).Session().Timeout())
		require.Equal(t, time.Minute, zktest.Client(t, server, framework.WithSessionTimeout(time.Hour)).Session().Timeout())
	}
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) { grants(t, server.Addr()) })
	grants(t, zktest.NewServer(t, zkserver.WithTick(100*time.Millisecond)).Addr())
}
