// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// Users of the servers of these tests. One has names beyond ASCII, another beyond ISO 8859-1.
var saslUsers = map[string]string{"alice": "wonderland", "jürgen": "pässwörd", "иван": "пароль", "carol": "x"}

// saslApache is ZooKeeper that demands SASL, which tests share until the end of the process.
var saslApache struct {
	sync.Once

	ensemble *ensemble.Ensemble
	err      error
}

// endingSASL ends it after the tests.
type endingSASL struct{ zktest.TestRunner }

func (m endingSASL) Run() int {
	code := m.TestRunner.Run()
	if saslApache.ensemble != nil {
		_ = saslApache.ensemble.Close() // it ends with the process too
	}
	return code
}

// eachSASLServer runs a test on the embedded server and on Apache's, which demand SASL.
func eachSASLServer(t *testing.T, test func(t *testing.T, addr string)) {
	t.Helper()
	t.Run("zkserver", func(t *testing.T) {
		test(t, zktest.NewServer(t, zkserver.WithSASLUsers(saslUsers), zkserver.WithRequireClientAuthScheme("sasl")).Addr())
	})
	if testing.Short() {
		return
	}
	t.Run("zookeeper", func(t *testing.T) {
		saslApache.Do(func() {
			saslApache.ensemble, saslApache.err = ensemble.Start(context.Background(), ensemble.WithSASLUsers(saslUsers),
				ensemble.WithRequiredSASL(), ensemble.WithConfig("maxSessionTimeout", "60000"))
		})
		require.NoError(t, saslApache.err)
		test(t, saslApache.ensemble.ConnectString())
	})
}

func ofAlice() []framework.ACL {
	return []framework.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "alice"}}
}

// TestSASL: an identity on every connection, in the session after as well, beside the one of WithAuth, on servers that
// serve no client without it.
func TestSASL(t *testing.T) {
	eachSASLServer(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		proxy := zktest.NewProxy(t, addr)
		owner := zktest.Client(t, proxy.Addr(), framework.WithSASL(framework.DigestMD5("alice", "wonderland")),
			framework.WithAuth("digest", []byte("bob:x")))
		states := recordStates(owner)
		must.Get(owner.Create(ctx, "/sasl", []byte("data"), framework.WithACL(ofAlice()...)))(t)
		must.Get(owner.Create(ctx, "/auth", []byte("data"), framework.WithACL(creatorOnly()...)))(t)
		acl := must.Get(owner.GetACL(ctx, "/sasl"))(t)
		require.Equal(t, ofAlice(), acl)
		acl = must.Get(owner.GetACL(ctx, "/auth"))(t)
		require.Len(t, acl, 2, "both identities")

		readable := func(f *framework.Framework) {
			t.Helper()
			for _, path := range []string{"/sasl", "/auth"} {
				must.Get(f.Get(ctx, path))(t)
			}
		}
		readable(owner)
		proxy.Cut()
		states.expect(t, framework.Suspended, framework.Reconnected)
		readable(owner)
		zktest.KillSession(t, owner, addr)
		readable(owner)

		for user, password := range saslUsers {
			f := zktest.Client(t, addr, framework.WithSASL(framework.DigestMD5(user, password)))
			_, err := f.Get(ctx, "/sasl")
			if user == "alice" {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, framework.ErrNoAuth, user)
		}
	})
}

// TestSASLRefused: Connect says why at once, after one connection, once in the log, without the password.
func TestSASLRefused(t *testing.T) {
	eachSASLServer(t, func(t *testing.T, addr string) {
		for name, mechanism := range map[string]framework.SASLMechanism{
			"wrong password": framework.DigestMD5("alice", "looking-glass"),
			"unknown user":   framework.DigestMD5("mallory", "looking-glass"),
			"a function's": framework.DigestMD5Func(func(context.Context) (string, string, error) {
				return "alice", "looking-glass", nil
			}),
		} {
			var dials atomic.Int32
			said := &safeBuffer{}
			_, err := framework.Connect(t.Context(), addr, framework.WithSASL(mechanism),
				framework.WithLogger(slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))),
				framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.Add(1)
					return new(net.Dialer).DialContext(ctx, network, address)
				}))
			require.ErrorIs(t, err, framework.ErrAuthFailed, name)
			require.ErrorContains(t, err, "DIGEST-MD5")
			require.ErrorContains(t, err, "the password")
			require.EqualValues(t, 1, dials.Load(), name)
			require.Equal(t, 1, strings.Count(said.String(), "zookeeper authentication failed"), name)
			all := said.String() + err.Error() + fmt.Sprintf("%v %+v %#v %d", mechanism, mechanism, mechanism, mechanism)
			require.NotContains(t, all, "looking-glass", name)
		}
	})
}

// TestSASLWhereItIsDemanded: the first call says so, and no second connection is made.
func TestSASLWhereItIsDemanded(t *testing.T) {
	eachSASLServer(t, func(t *testing.T, addr string) {
		f := zktest.Client(t, addr)
		_, err := f.Get(t.Context(), "/")
		require.ErrorIs(t, err, framework.ErrAuthFailed)
		require.ErrorContains(t, err, "SASL")
		require.Eventually(t, func() bool { // the call is told first, then the client ends
			return errors.Is(f.BlockUntilConnected(t.Context()), framework.ErrAuthFailed)
		}, patience, time.Millisecond)
	})
}

// TestSASLRotatedPassword: the client goes on with the password that is valid when it connects, and waits for it if it is late.
func TestSASLRotatedPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithSASLUsers(saslUsers), zkserver.WithRequireClientAuthScheme("sasl"))
		proxy := zktest.NewProxy(t, server)
		var password atomic.Value
		password.Store("wonderland")
		asked := make(chan string, 100)
		said := &safeBuffer{}
		f := zktest.Client(t, proxy, framework.WithLogger(slog.New(slog.NewTextHandler(said, nil))),
			framework.WithSASL(framework.DigestMD5Func(func(context.Context) (string, string, error) {
				p := password.Load().(string)
				asked <- p
				return "alice", p, nil
			})))
		session := f.Session()
		require.NoError(t, server.SetSASLUsers(map[string]string{"alice": "looking-glass"}))
		proxy.Cut()
		for range 3 { // the first, and two that are refused
			require.Equal(t, "wonderland", <-asked)
		}
		require.NoError(t, session.Err())
		password.Store("looking-glass")
		must.Get(f.Exists(t.Context(), "/"))(t)
		require.Same(t, session, f.Session(), "which has lived on")
		require.NoError(t, f.Close()) // which writes what is in the queue of the log
		require.Equal(t, 1, strings.Count(said.String(), "zookeeper authentication failed"))
		require.NotContains(t, said.String(), "wonderland")
	})
}

// badMechanism does what a mechanism must not.
type badMechanism struct {
	start func() (framework.SASLExchange, error)
}

func (badMechanism) Name() string { return "BAD" }
func (badMechanism) Renews() bool { return false }
func (m badMechanism) Start(context.Context, framework.SASLServer) (framework.SASLExchange, error) {
	return m.start()
}

func noHealth() *framework.Health { return nil }

// TestSASLMechanismWithFaults: a panic ends the client, not the process, and does not print what it was given.
func TestSASLMechanismWithFaults(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithSASLUsers(saslUsers))
	for want, start := range map[string]func() (framework.SASLExchange, error){
		"the mechanism panicked: string":   func() (framework.SASLExchange, error) { panic("wonderland") },
		"neither an exchange nor an error": func() (framework.SASLExchange, error) { return nil, nil },                   //nolint:nilnil // as it must not
		"runtime.Goexit was called":        func() (framework.SASLExchange, error) { runtime.Goexit(); return nil, nil }, //nolint:nilnil // it does not return
		"invalid memory address":           func() (framework.SASLExchange, error) { return nil, noHealth().Err },
		"no ticket in /tmp/krb5cc_1000": func() (framework.SASLExchange, error) {
			return nil, fmt.Errorf("%w: no ticket in /tmp/krb5cc_1000", framework.ErrAuthFailed)
		},
	} {
		_, err := framework.Connect(t.Context(), server.Addr(), framework.WithSASL(badMechanism{start: start}))
		require.ErrorIs(t, err, framework.ErrAuthFailed)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "wonderland")
	}
}

// TestSASLOptions: what is refused before anything is sent.
func TestSASLOptions(t *testing.T) {
	digest := framework.DigestMD5("alice", "wonderland")
	for want, opts := range map[string][]framework.Option{
		"mechanism nil": {framework.WithSASL(nil)},
		"expected one":  {framework.WithSASL(digest), framework.WithSASL(digest)},
		"empty user":    {framework.WithSASL(framework.DigestMD5("", "wonderland"))},
		"not UTF-8":     {framework.WithSASL(framework.DigestMD5("a", "\xff"))},
		"nil function":  {framework.WithSASL(framework.DigestMD5Func(nil))},
	} {
		_, err := framework.New("a", opts...)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "wonderland")
	}
}

// TestWhoAmI: all identities of a connection, which Health knows as well, and an error from a server that is too old.
func TestWhoAmI(t *testing.T) {
	eachSASLServer(t, func(t *testing.T, addr string) {
		proxy := zktest.NewProxy(t, addr)
		f := zktest.Client(t, proxy.Addr(), framework.WithSASL(framework.DigestMD5("alice", "wonderland")),
			framework.WithAuth("digest", []byte("bob:x")))
		want := []framework.Identity{{"sasl", "alice"}, {"digest", "bob"}, {"ip", "127.0.0.1"}}
		for range 2 {
			require.ElementsMatch(t, want, must.Get(f.WhoAmI(t.Context()))(t))
			require.Eventually(t, func() bool { return len(f.Health().Identities) == len(want) }, time.Minute, time.Millisecond)
			require.ElementsMatch(t, want, f.Health().Identities)
			require.Contains(t, string(must.Get(f.Health().MarshalJSON())(t)), `"sasl:alice"`)
			proxy.Cut()
		}
	})
	old := zktest.Client(t, zktest.NewServer(t, zkserver.WithVersion("3.6.3"), zkserver.WithSASLUsers(saslUsers)),
		framework.WithSASL(framework.DigestMD5("alice", "wonderland")))
	_, err := old.WhoAmI(t.Context())
	require.ErrorIs(t, err, framework.ErrUnsupported)
	require.ErrorContains(t, err, "ZooKeeper 3.7 or later")
	require.Nil(t, old.Health().Identities)
	require.Equal(t, framework.Connected, old.State(), "nothing was sent that it does not know")
}

// TestConnectThatEndsDuringAnExchange: no session is left at the server.
func TestConnectThatEndsDuringAnExchange(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithSASLUsers(saslUsers))
	ctx, cancel := context.WithCancel(t.Context())
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpSASL {
			cancel()
			return zkserver.NeverAnswer
		}
		return zkserver.Pass
	})
	_, err := framework.Connect(ctx, server.Addr(), framework.WithSASL(framework.DigestMD5("alice", "wonderland")))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "SASL DIGEST-MD5: the exchange is under way")
	require.Zero(t, server.Stats().Sessions)
}

// slowMechanism takes its time before each exchange.
type slowMechanism struct {
	framework.SASLMechanism
	takes time.Duration
}

func (m slowMechanism) Start(ctx context.Context, server framework.SASLServer) (framework.SASLExchange, error) {
	select {
	case <-time.After(m.takes):
		return m.SASLMechanism.Start(ctx, server)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TestSASLSlowMechanism: one that takes longer than the time between pings connects to servers that take no ping before the end of
// the exchange.
func TestSASLSlowMechanism(t *testing.T) {
	t.Parallel()
	eachSASLServer(t, func(t *testing.T, addr string) {
		const timeout = 1500 * time.Millisecond
		f := zktest.Client(t, addr, framework.WithSessionTimeout(timeout),
			framework.WithSASL(slowMechanism{framework.DigestMD5("alice", "wonderland"), timeout / 2}))
		must.Get(f.Exists(t.Context(), "/"))(t)
	})
}
