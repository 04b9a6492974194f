// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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

func newDynamic(t *testing.T, connectString string) *framework.DynamicEnsembleProvider {
	t.Helper()
	p := must.Get(framework.NewDynamicEnsembleProvider(connectString))(t)
	return p
}

func TestEnsembleClientMovesToWhereTheServersAre(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.ResumedSessions)
		before, after := zktest.NewProxy(t, server.Addr()), zktest.NewProxy(t, server.Addr())
		provider := newDynamic(t, server.ConnectStringVia(before.Addr()))
		f := zktest.Client(t, "", framework.WithEnsembleProvider(provider))
		mustCreate(t, f, "/a", framework.CreatingParentsIfNeeded())
		session, told := f.Session(), recordStates(f)

		require.NoError(t, provider.SetConnectionString(after.Addr()))
		told.expect(t, framework.Suspended, framework.Reconnected)
		require.Equal(t, []string{after.Addr()}, f.Servers())
		require.Equal(t, after.Addr()+server.Root(), f.String(), "the chroot stays")
		require.Empty(t, must.Get(f.Get(t.Context(), "/a"))(t))
		require.Same(t, session, f.Session())
		require.NotZero(t, after.Requests())

		require.NoError(t, before.Close())
		after.Cut()
		told.expect(t, framework.Suspended, framework.Reconnected)
	})
}

func TestEnsembleConnectionStaysWhileItsServerDoes(t *testing.T) {
	server := zktest.NewServer(t)
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	provider := newDynamic(t, server.Addr()+"/x")
	f := zktest.Client(t, "", framework.WithEnsembleProvider(provider))
	told, linked := recordStates(f), f.Session().Context(framework.StandardErrorPolicy)
	other := zktest.NewServer(t)
	for name, s := range map[string]string{
		"one more":         server.Addr() + "," + other.Addr(),
		"the same chroot":  server.Addr() + "/x",
		"by another name":  "localhost:" + port,
		"or perhaps":       "no-such-host.invalid:" + port,
		"another chroot":   other.Addr() + "/y",
		"in another order": other.Addr() + "," + server.Addr(),
	} {
		require.NoError(t, provider.SetConnectionString(s), name)
		if name != "another chroot" {
			await(t, f, strings.Split(strings.TrimSuffix(s, "/x"), ","))
		}
		// When the next change is seen, everything has been done about the one before.
		require.NoError(t, provider.SetConnectionString(server.Addr()+",b:1"))
		await(t, f, []string{server.Addr(), "b:1"})
		require.NoError(t, linked.Err(), name)
	}
	// The other server does not know the session.
	require.NoError(t, provider.SetConnectionString(other.Addr()))
	told.expect(t, framework.Suspended, framework.Lost, framework.Reconnected)
}

func await(t *testing.T, f *framework.Framework, servers []string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(f.Servers(), servers) }, patience, time.Millisecond)
}

// counting is a provider without a notifier.
type counting struct {
	asked atomic.Int64
	now   atomic.Pointer[string]
}

func (c *counting) set(s string) { c.now.Store(&s) }

func (c *counting) ConnectionString() string {
	c.asked.Add(1)
	return *c.now.Load()
}

func TestEnsembleProviderIsAskedBeforeEachRound(t *testing.T) {
	server := zktest.NewServer(t)
	before, after := zktest.NewProxy(t, server.Addr()), zktest.NewProxy(t, server.Addr())
	provider := new(counting)
	provider.set(before.Addr() + "/root")
	f := zktest.Client(t, "", framework.WithEnsembleProvider(provider))
	session, told := f.Session(), recordStates(f)

	provider.set("not:one")
	before.Refuse(true)
	before.Cut()
	told.expect(t, framework.Suspended)
	asked := provider.asked.Load()
	require.Eventually(t, func() bool { return provider.asked.Load() > asked+1 }, patience, time.Millisecond)
	require.Equal(t, []string{before.Addr()}, f.Servers(), "what is no connection string changes nothing")

	provider.set(after.Addr() + "/other")
	asked = provider.asked.Load()
	require.Eventually(t, func() bool { return provider.asked.Load() > asked+1 }, patience, time.Millisecond)
	require.Equal(t, []string{before.Addr()}, f.Servers(), "nor does one with another chroot")

	provider.set(after.Addr())
	told.expect(t, framework.Reconnected)
	require.Equal(t, []string{after.Addr()}, f.Servers())
	require.Same(t, session, f.Session())
}

// TestEnsembleServersThatDoNotAnswerAreReplaced at once, whether they are silent before or in the handshake: three
// attempts take 45 s otherwise.
func TestEnsembleServersThatDoNotAnswerAreReplaced(t *testing.T) {
	for _, accepts := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *memnet) {
			provider := newDynamic(t, "dead1:1,dead2:1,dead3:1")
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				switch {
				case address == "alive:1":
					return n.dial(ctx, network, address)
				case accepts:
					client, server := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, server) }() // until the client hangs up
					return client, nil
				default:
					<-ctx.Done()
					return nil, ctx.Err()
				}
			}
			f := must.Get(framework.New("", framework.WithEnsembleProvider(provider), framework.WithDialer(dial)))(t)
			require.NoError(t, f.Start())
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			time.Sleep(time.Second)
			require.NoError(t, provider.SetConnectionString("alive:1"))
			began := time.Now()
			require.NoError(t, f.BlockUntilConnected(t.Context()))
			require.Less(t, time.Since(began), 2*time.Second)
		})
	}
}

func TestEnsembleOptions(t *testing.T) {
	for name, opts := range map[string][]framework.Option{
		"nil":           {framework.WithEnsembleProvider(nil)},
		"two addresses": {framework.WithEnsembleProvider(framework.FixedEnsembleProvider("b"))},
		"plain ports":   {framework.WithEnsembleTracker(), framework.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12})},
	} {
		_, err := framework.New("a", opts...)
		require.ErrorIs(t, err, framework.ErrInvalidOption, name)
	}
	_, err := framework.New("a", framework.WithTrackedAddress(func(string) string { return "b" }))
	require.ErrorContains(t, err, "without WithEnsembleTracker, expected both")
	f := must.Get(framework.New("", framework.WithEnsembleProvider(framework.FixedEnsembleProvider("b:7/x"))))(t)
	require.Equal(t, "b:7/x", f.String())
	_, err = framework.New("", framework.WithEnsembleProvider(framework.FixedEnsembleProvider("b:x")))
	require.ErrorContains(t, err, `port "x"`)
	_, err = framework.NewDynamicEnsembleProvider("")
	require.ErrorContains(t, err, "empty server")
	provider := newDynamic(t, "a")
	require.ErrorContains(t, provider.SetConnectionString("a:0"), `port "0"`)
	require.Equal(t, "a", provider.ConnectionString())
}

func TestClientAddressesOfAConfiguration(t *testing.T) {
	for config, want := range map[string][]string{
		"":                  nil,
		"version=100000000": nil,
		"server.1=a:2888:3888:participant;b:2181\nversion=1":                     {"b:2181"},
		"server.1=a:2888:3888:participant;0.0.0.0:2181\nversion=1":               {"a:2181"},
		"server.1=a:2888:3888:participant;[0:0:0:0:0:0:0:0]:2181":                {"a:2181"},
		"server.1=a:2888:3888;2181":                                              {"a:2181"},
		"server.1=[fe80::1]:2888:3888:participant;0.0.0.0:2181":                  {"[fe80::1]:2181"},
		"server.1=a:1:2:participant;[fe80::2]:2181":                              {"[fe80::2]:2181"},
		"server.1=a:1:2|b:3:4:participant;0.0.0.0:2181":                          {"a:2181"},
		"server.2=b:1:2;0.0.0.0:5\nserver.1=a:1:2:observer;0.0.0.0:5\nversion=1": {"a:5", "b:5"},
		"server.1=a:1:2;5\nserver.2=b:1:2\nserver.3=c:1:2;5":                     {"a:5", "c:5"},
		"server.1=a:1:2;5\nserver.2=b:1:2\nversion=4":                            nil,
		"server.1=a:1:2;5\nserver.2=a:3:4;0.0.0.0:5\n":                           {"a:5"},
		"server.1=a:1:2;0.0.0.0:0":                                               nil,
		"server.1=a:1:2;":                                                        nil,
		"server.1=;5":                                                            nil,
		"group.1=1:2\nserver.1=a:1:2;5\n weight.1=1":                             {"a:5"},
	} {
		require.Equal(t, want, framework.ClientAddresses(config), "%q", config)
	}
}

func TestEnsembleTrackerFollowsAReconfiguration(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three real servers")
	}
	t.Parallel() // with servers of its own
	servers := zktest.NewEnsemble(t, 3, ensemble.WithConfig("reconfigEnabled", "true"),
		ensemble.WithProperty("zookeeper.skipACL", "yes"), ensemble.WithSyncLimit(20))
	followers := must.Get(servers.Followers(t.Context()))(t)
	leaving := followers[0]
	var all, rest []string
	for _, s := range servers.Servers() {
		all = append(all, s.Addr())
		if s != leaving {
			rest = append(rest, s.Addr())
		}
	}
	f := zktest.Client(t, leaving.Addr()+"/orders", framework.WithEnsembleTracker())
	session, told := f.Session(), recordStates(f)
	await(t, f, slices.Sorted(slices.Values(all)))

	before := must.Get(f.Config(t.Context()))(t)
	compressing := must.Get(f.UsingNamespace("compressing", framework.WithCompression()))(t)
	same, err := compressing.Config(t.Context())
	require.NoError(t, err, "the servers have written it")
	require.Equal(t, before, same)
	id := strconv.Itoa(leaving.ID())
	after := must.Get(f.Reconfig(t.Context(), framework.Reconfiguration{Leaving: []string{id}}))(t)
	require.NotContains(t, string(after), "server."+id+"=")
	told.expect(t, framework.Suspended, framework.Reconnected)
	require.ElementsMatch(t, rest, f.Servers())
	require.Same(t, session, f.Session())
	require.Equal(t, after, must.Get(f.Config(t.Context()))(t))

	// It comes back, and the connection stays.
	line := serverLine(t, string(before), id)
	must.Get(f.Reconfig(t.Context(), framework.Reconfiguration{Joining: []string{line}, From: configVersion(t, string(after))}))(t)
	require.Eventually(t, func() bool { return len(f.Servers()) == 3 }, patience, time.Millisecond)
	_, err = f.Reconfig(t.Context(), framework.Reconfiguration{Leaving: []string{id}, From: 1})
	require.ErrorIs(t, err, framework.ErrBadVersion)
	told.none(t)
	require.Equal(t, framework.Reconnected, f.State())
}

func serverLine(t *testing.T, config, id string) string {
	t.Helper()
	for line := range strings.Lines(config) {
		if server, found := strings.CutPrefix(line, "server."+id+"="); found {
			return id + "=" + strings.TrimSpace(server)
		}
	}
	require.Fail(t, "no such server", "%s in %s", id, config)
	return ""
}

func configVersion(t *testing.T, config string) int64 {
	t.Helper()
	_, text, found := strings.Cut(config, "version=")
	require.True(t, found, config)
	version := must.Get(strconv.ParseInt(strings.TrimSpace(text), 16, 64))(t)
	return version
}

func TestEnsembleTrackerThatMayNotRead(t *testing.T) {
	server := zktest.NewServer(t)
	const noAuth = -102
	var asked atomic.Int64
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpGetData || r.Path != "/zookeeper/config" {
			return zkserver.Pass
		}
		asked.Add(1)
		return zkserver.FailWith(noAuth)
	})
	f, proxy := zktest.ClientViaProxy(t, server, framework.WithEnsembleTracker())
	told := recordStates(f)
	require.Eventually(t, func() bool { return asked.Load() == 1 }, patience, time.Millisecond)
	require.NoError(t, f.Sync(t.Context(), "/")) // replies come in order
	proxy.Cut()
	told.expect(t, framework.Suspended, framework.Reconnected)
	require.Eventually(t, func() bool { return asked.Load() == 2 }, patience, time.Millisecond)
	require.NoError(t, f.Sync(t.Context(), "/"))
	require.EqualValues(t, 2, asked.Load(), "once on each connection")
	remove()
	proxy.Cut()
	told.expect(t, framework.Suspended, framework.Reconnected)
	require.Eventually(t, func() bool { return server.Stats().Watches == 1 }, patience, time.Millisecond)
}

// TestEnsembleTrackerOfABusyServer reads again on the same connection, and so after an error inside
// the server.
func TestEnsembleTrackerOfABusyServer(t *testing.T) {
	const throttled, systemError = -127, -1
	for _, code := range []int32{throttled, systemError} {
		inMemory(t, func(t *testing.T, n *memnet) {
			defer n.server.Intercept(zkserver.Nth(1, zkserver.OpGetData, zkserver.FailWith(code)))()
			n.client(t, framework.WithEnsembleTracker())
			synctest.Wait()
			require.Zero(t, n.server.Stats().Watches)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, 1, n.server.Stats().Watches)
		})
	}
}
