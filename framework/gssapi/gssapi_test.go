// SPDX-License-Identifier: Apache-2.0

package gssapi_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	krb5client "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/gssapi"
	"github.com/gocurator/curator/internal/testkit/kdc"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secured is a realm, and servers that serve only its principals.
type secured struct {
	*kdc.KDC
	ensemble *ensemble.Ensemble
}

// startKDCOrSkip starts a realm with the principals alice and bob, and the servers'.
func startKDCOrSkip(t *testing.T) *kdc.KDC {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Java and a KDC")
	}
	k := kdc.Start(t)
	k.AddPrincipal(t, "alice", "wonderland")
	k.AddPrincipal(t, "bob", "builder")
	k.AddPrincipal(t, "zookeeper/127.0.0.1", "")
	return k
}

// secure starts a realm, and servers in it.
func secure(t *testing.T, size int) secured {
	t.Helper()
	k := startKDCOrSkip(t)
	keytab := k.Keytab(t, "servers.keytab", "zookeeper/127.0.0.1")
	return secured{k, zktest.NewEnsemble(t, size, ensemble.WithKerberos(k.Conf, keytab, kdc.Realm), ensemble.WithRequiredSASL())}
}

// TestGSSAPIAtOneServer and its KDC, which the last test stops.
func TestGSSAPIAtOneServer(t *testing.T) {
	s := secure(t, 1)
	t.Run("refusals", s.refusals)
	t.Run("a server that the KDC does not know", s.serverThatTheKDCDoesNotKnow)
	t.Run("another principal in the cache", s.anotherPrincipalInTheCache)
	t.Run("a client waits for its ticket", s.clientWaitsForItsTicket)
	t.Run("an expired ticket", s.expiredTicket)
	t.Run("no KDC for a while", s.noKDCForAWhile)
}

// TestGSSAPIAtThreeServers: each is started again, first with its keys and then with others.
func TestGSSAPIAtThreeServers(t *testing.T) {
	s := secure(t, 3)
	t.Run("a client moves between them", s.movesBetweenServers)
	t.Run("they get new keys", s.serversGetNewKeys)
}

func password(p string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return p, nil }
}

func mechanismOf(t *testing.T) func(m *gssapi.Mechanism, err error) framework.Option {
	return func(m *gssapi.Mechanism, err error) framework.Option {
		t.Helper()
		require.NoError(t, err)
		return framework.WithSASL(m)
	}
}

// movesBetweenServers: a lock over three servers that a client moves between, with a keytab, and others with a credential cache and
// a password.
func (s secured) movesBetweenServers(t *testing.T) {
	conf := gssapi.WithConfig(s.Conf)
	ctx := t.Context()
	keytab := s.Keytab(t, "alice.keytab", "bob")
	client := zktest.Client(t, s.ensemble, mechanismOf(t)(gssapi.Keytab(keytab, "bob@"+kdc.Realm, conf)))
	_, err := client.Create(ctx, "/mine", nil, framework.WithACL(framework.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "bob@" + kdc.Realm}))
	require.NoError(t, err)
	mutex, err := locks.NewInterProcessMutex(client, "/locks/a", locks.WithErrorPolicy(framework.SessionErrorPolicy))
	require.NoError(t, err)
	lease, err := mutex.Acquire(ctx)
	require.NoError(t, err)
	session := client.Session()
	for i := range 3 {
		require.NoError(t, s.ensemble.Server(i).Restart(ctx))
		_, err := client.Get(ctx, "/mine")
		require.NoError(t, err)
	}
	require.Same(t, session, client.Session())
	require.NoError(t, lease.Release(ctx))

	cache := filepath.Join(s.Dir, "cache")
	s.Kinit(t, cache, "alice", "wonderland", time.Hour)
	t.Setenv("KRB5CCNAME", "FILE:"+cache)
	t.Setenv("KRB5_CONFIG", s.Conf)
	for name, option := range map[string]framework.Option{
		"cache":    mechanismOf(t)(gssapi.CredentialCache("")),
		"password": mechanismOf(t)(gssapi.Password("alice", password("wonderland"))),
	} {
		other := zktest.Client(t, s.ensemble, option)
		_, err := other.Get(ctx, "/mine")
		require.ErrorIs(t, err, framework.ErrNoAuth, name)
		_, err = other.Create(ctx, "/"+name, nil, framework.WithACL(framework.ACL{Perms: zk.PermAll, Scheme: "auth"}))
		require.NoError(t, err, name)
		acl, err := other.GetACL(ctx, "/"+name)
		require.NoError(t, err)
		require.Equal(t, []framework.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "alice@" + kdc.Realm}}, acl, name)
	}
}

// TestGSSAPIKerberosOfBothSides: ZooKeeper's command line client and a client in Go share a znode of one principal. Java takes the canonical
// name of a server.
func TestGSSAPIKerberosOfBothSides(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Java and a KDC")
	}
	names, err := net.DefaultResolver.LookupAddr(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	server := "zookeeper/" + strings.ToLower(strings.TrimSuffix(names[0], "."))
	k := kdc.Start(t)
	k.AddPrincipal(t, "alice", "")
	k.AddPrincipal(t, server, "")
	const login = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false"
	keytab := k.Keytab(t, "keytab", "alice", server)
	e := zktest.NewEnsemble(t, 1, ensemble.WithRequiredSASL(), ensemble.WithProperty("java.security.krb5.conf", k.Conf),
		ensemble.WithJAAS(fmt.Sprintf("Server {\n %s keyTab=%q principal=%q;\n};\n", login, keytab, server+"@"+kdc.Realm)))
	client := zktest.Client(t, e, mechanismOf(t)(gssapi.Keytab(keytab, "alice", gssapi.WithConfig(k.Conf), gssapi.WithCanonicalHost())))
	_, err = client.Create(t.Context(), "/mine", []byte("from-go"), framework.WithACL(framework.ACL{Perms: zk.PermAll, Scheme: "auth"}))
	require.NoError(t, err)

	k.Write(t, "jaas", fmt.Sprintf("Client {\n %s keyTab=%q principal=%q;\n};\n", login, keytab, "alice@"+kdc.Realm))
	java, classPath, err := ensemble.Installed()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), java, "-XX:TieredStopAtLevel=1", "-Djava.security.krb5.conf="+k.Conf,
		"-Djava.security.auth.login.config="+filepath.Join(k.Dir, "jaas"),
		"-cp", classPath, "org.apache.zookeeper.ZooKeeperMain", "-server", e.ConnectString())
	cmd.Stdin = strings.NewReader("get /mine\ngetAcl /mine\nset /mine from-java\nquit\n")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "from-go")
	require.Contains(t, string(output), "'sasl,'alice@"+kdc.Realm)
	data, err := client.Get(t.Context(), "/mine")
	require.NoError(t, err)
	require.Equal(t, "from-java", string(data))
}

// refusals: Connect says at once what is wrong, once in the log, without a secret.
func (s secured) refusals(t *testing.T) {
	conf := gssapi.WithConfig(s.Conf)
	old := s.Keytab(t, "old.keytab", "bob")
	s.Keytab(t, "new.keytab", "bob")
	expired := filepath.Join(s.Dir, "expired")
	s.Kinit(t, expired, "alice", "wonderland", time.Second)
	s.Write(t, "damaged", "\x05\x04")
	s.Write(t, "empty", "")
	s.Write(t, "stray.keytab", "\x05\x02\x00")
	<-time.After(1100 * time.Millisecond) // the ticket's lifetime, which no signal ends
	s.AddPrincipal(t, "zookeeper/wrongkey", "")

	for want, mechanism := range map[string]func() (*gssapi.Mechanism, error){
		"the password or the keytab is not the principal's": func() (*gssapi.Mechanism, error) {
			return gssapi.Password("alice", password("looking-glass"), conf)
		},
		"the KDC does not know the client's principal": func() (*gssapi.Mechanism, error) {
			return gssapi.Password("mallory", password("looking-glass"), conf)
		},
		"the KDC does not know the server's principal": func() (*gssapi.Mechanism, error) {
			return gssapi.Password("alice", password("wonderland"), conf, gssapi.WithServiceName("hbase"))
		},
		"error -124": func() (*gssapi.Mechanism, error) { // the server has no key for this ticket
			return gssapi.Password("alice", password("wonderland"), conf, gssapi.WithServerPrincipal("zookeeper/wrongkey"))
		},
		"no ticket: those in the credential cache " + expired + " have expired": func() (*gssapi.Mechanism, error) {
			return gssapi.CredentialCache(expired, conf)
		},
		"no ticket: credential cache /nowhere: no such file": func() (*gssapi.Mechanism, error) {
			return gssapi.CredentialCache("/nowhere", conf)
		},
		"damaged: it is damaged": func() (*gssapi.Mechanism, error) {
			return gssapi.CredentialCache(filepath.Join(s.Dir, "damaged"), conf)
		},
		"empty: it is damaged": func() (*gssapi.Mechanism, error) {
			return gssapi.CredentialCache(filepath.Join(s.Dir, "empty"), conf)
		},
		"keytab /nowhere: no such file": func() (*gssapi.Mechanism, error) { return gssapi.Keytab("/nowhere", "bob", conf) },
		"stray.keytab": func() (*gssapi.Mechanism, error) {
			return gssapi.Keytab(filepath.Join(s.Dir, "stray.keytab"), "bob", conf)
		},
		"has no key of alice@" + kdc.Realm:                func() (*gssapi.Mechanism, error) { return gssapi.Keytab(old, "alice", conf) },
		"keytab is not the principal's, or is an old one": func() (*gssapi.Mechanism, error) { return gssapi.Keytab(old, "bob", conf) },
	} {
		m, err := mechanism()
		require.NoError(t, err, want)
		var said strings.Builder
		var dials atomic.Int32
		_, err = framework.Connect(t.Context(), s.ensemble.ConnectString(), framework.WithSASL(m),
			framework.WithLogger(slog.New(slog.NewTextHandler(&said, nil))),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, network, address)
			}))
		require.ErrorIs(t, err, framework.ErrAuthFailed, want)
		require.ErrorContains(t, err, want)
		require.EqualValues(t, 1, dials.Load(), want)
		require.Equal(t, 1, strings.Count(said.String(), "zookeeper authentication failed"), want)
		for _, secret := range []string{"looking-glass", "wonderland"} {
			require.NotContains(t, said.String()+err.Error()+fmt.Sprintf("%+v %#v", m, m), secret)
		}
	}
}

// expiredTicket: a client whose ticket has expired connects with another one, from a keytab that was renewed as well.
func (s secured) expiredTicket(t *testing.T) {
	const lifetime = 2 * time.Second
	s.AddPrincipal(t, "carol", "") // others keep their keys
	s.Admin(t, fmt.Sprintf("modprinc -maxlife %dseconds carol", int(lifetime.Seconds())))
	keytab := s.Keytab(t, "carol.keytab", "carol")
	proxy := zktest.NewProxy(t, s.ensemble)
	client := zktest.Client(t, proxy.Addr(), mechanismOf(t)(gssapi.Keytab(keytab, "carol", gssapi.WithConfig(s.Conf))))
	connected := time.Now()
	require.NoError(t, os.Remove(keytab))
	s.Keytab(t, "carol.keytab", "carol") // which makes the old one void
	<-time.After(time.Until(connected.Add(lifetime)))
	session := client.Session()
	proxy.Cut()
	_, err := client.Exists(t.Context(), "/")
	require.NoError(t, err)
	require.Same(t, session, client.Session())
}

// newKeys gives the servers other keys, and none of the old ones.
func (s secured) newKeys(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(filepath.Join(s.Dir, "servers.keytab")))
	s.Keytab(t, "servers.keytab", "zookeeper/127.0.0.1")
}

// serversGetNewKeys: a client whose ticket is of the old ones is back as soon as a new client, whether one of the servers has been
// started again or all.
func (s secured) serversGetNewKeys(t *testing.T) {
	conf := gssapi.WithConfig(s.Conf)
	keytab := s.Keytab(t, "bob.keytab", "bob")
	cache := filepath.Join(s.Dir, "cache")
	s.Kinit(t, cache, "alice", "wonderland", time.Hour)
	krb5, err := config.Load(s.Conf)
	require.NoError(t, err)
	own := krb5client.NewWithPassword("alice", kdc.Realm, "wonderland", krb5, krb5client.DisablePAFXFAST(true))
	require.NoError(t, own.Login())
	defer own.Destroy()
	clients := map[string]*framework.Framework{}
	for name, option := range map[string]framework.Option{
		"password": mechanismOf(t)(gssapi.Password("alice", password("wonderland"), conf)),
		"keytab":   mechanismOf(t)(gssapi.Keytab(keytab, "bob", conf)),
		"cache":    mechanismOf(t)(gssapi.CredentialCache(cache, conf)),
		"own":      mechanismOf(t)(gssapi.Client(own)),
	} {
		clients[name] = zktest.Client(t, s.ensemble, option)
	}
	connected := func(since time.Time) {
		t.Helper()
		for name, client := range clients {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // and not half an hour
			require.NoError(t, client.BlockUntilConnected(ctx), name)
			_, err := client.Exists(ctx, "/")
			require.NoError(t, err, name)
			cancel()
		}
		t.Logf("all are back after %v", time.Since(since))
	}
	s.newKeys(t)
	require.NoError(t, s.ensemble.Server(0).Restart(t.Context()))
	connected(time.Now())
	s.newKeys(t)
	require.NoError(t, s.ensemble.Restart(t.Context()))
	connected(time.Now())
}

// anotherPrincipalInTheCache: each connection is of the principal whose ticket is in the file when it begins, and none is made
// without one.
func (s secured) anotherPrincipalInTheCache(t *testing.T) {
	cache := filepath.Join(s.Dir, "cache")
	s.AddPrincipal(t, "dave", "builder") // bob has a keytab by now
	s.Kinit(t, cache, "alice", "wonderland", time.Hour)
	proxy := zktest.NewProxy(t, s.ensemble)
	client := zktest.Client(t, proxy.Addr(), mechanismOf(t)(gssapi.CredentialCache(cache, gssapi.WithConfig(s.Conf))),
		framework.WithLogger(slog.New(slog.DiscardHandler)))
	is := func(user string) {
		t.Helper()
		who, err := client.WhoAmI(t.Context())
		require.NoError(t, err)
		require.Contains(t, who, framework.Identity{Scheme: "sasl", ID: user + "@" + kdc.Realm})
	}
	is("alice")
	s.Kinit(t, cache, "dave", "builder", time.Hour)
	proxy.Cut()
	is("dave")
	require.NoError(t, os.Remove(cache)) // as kdestroy does
	proxy.Cut()
	require.Eventually(t, func() bool {
		err := client.Health().Err
		return err != nil && strings.Contains(err.Error(), "no ticket")
	}, time.Minute, time.Millisecond)
	s.Kinit(t, cache, "alice", "wonderland", time.Hour)
	is("alice")
}

// TestGSSAPIWhereDigestIsDemanded: Connect says so at once, and a client that runs goes on.
func TestGSSAPIWhereDigestIsDemanded(t *testing.T) {
	k := startKDCOrSkip(t)
	users := map[string]string{"alice": "wonderland"}
	for name, servers := range map[string]string{
		"zkserver":  zktest.NewServer(t, zkserver.WithSASLUsers(users)).Addr(),
		"zookeeper": zktest.NewEnsemble(t, 1, ensemble.WithSASLUsers(users)).ConnectString(),
	} {
		m, err := gssapi.Password("alice", password("wonderland"), gssapi.WithConfig(k.Conf))
		require.NoError(t, err)
		_, err = framework.Connect(t.Context(), servers, framework.WithSASL(m), framework.WithLogger(slog.New(slog.DiscardHandler)))
		require.ErrorIs(t, err, framework.ErrAuthFailed, name)
		require.ErrorContains(t, err, "the server asks for DIGEST-MD5", name)
	}
}

// serverThatTheKDCDoesNotKnow: another of the list will do.
func (s secured) serverThatTheKDCDoesNotKnow(t *testing.T) {
	_, port, err := net.SplitHostPort(s.ensemble.ConnectString())
	require.NoError(t, err)
	for range 4 { // the order is random
		zktest.Client(t, "localhost:"+port+",127.0.0.1:"+port, mechanismOf(t)(gssapi.Password("alice", password("wonderland"), gssapi.WithConfig(s.Conf))),
			framework.WithLogger(slog.New(slog.DiscardHandler)))
	}
}

// noKDCForAWhile: a client connects with the ticket that it has.
func (s secured) noKDCForAWhile(t *testing.T) {
	proxy := zktest.NewProxy(t, s.ensemble)
	client := zktest.Client(t, proxy.Addr(), mechanismOf(t)(gssapi.Password("alice", password("wonderland"), gssapi.WithConfig(s.Conf))))
	s.Stop()
	proxy.Cut()
	_, err := client.Exists(t.Context(), "/")
	require.NoError(t, err)
}

// clientWaitsForItsTicket: a client that runs goes on without a ticket, and connects when there is one.
func (s secured) clientWaitsForItsTicket(t *testing.T) {
	cache := filepath.Join(s.Dir, "later")
	m, err := gssapi.CredentialCache(cache, gssapi.WithConfig(s.Conf))
	require.NoError(t, err)
	client, err := framework.New(s.ensemble.ConnectString(), framework.WithSASL(m), framework.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, client.Start())
	t.Cleanup(func() { _ = client.Close() })
	for client.Health().Err == nil || !strings.Contains(client.Health().Err.Error(), "no ticket") {
		require.NoError(t, t.Context().Err())
		<-time.After(10 * time.Millisecond)
	}
	s.Kinit(t, cache, "alice", "wonderland", time.Hour)
	require.NoError(t, client.BlockUntilConnected(t.Context()))
}

// TestGSSAPIOptions: what cannot be is refused before anything is sent.
func TestGSSAPIOptions(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[libdefaults]\n default_realm = A\n"), 0o600))
	with := gssapi.WithConfig(conf)
	ask := password("x")
	for want, err := range map[string]error{
		"empty path of a keytab":   second(gssapi.Keytab("", "a", with)),
		`principal ""`:             second(gssapi.Keytab("a", "", with)),
		`principal "a@"`:           second(gssapi.Keytab("a", "a@", with)),
		`principal "a@b@c"`:        second(gssapi.Password("a@b@c", ask, with)),
		"nil function":             second(gssapi.Password("a", nil, with)),
		"other kinds are not read": second(gssapi.CredentialCache("KEYRING:a", with)),
		"could not be opened":      second(gssapi.CredentialCache("a", gssapi.WithConfig("/nowhere"))),
		"empty path of krb5.conf":  second(gssapi.CredentialCache("a", gssapi.WithConfig(""))),
		`service name "a/b"`:       second(gssapi.CredentialCache("a", with, gssapi.WithServiceName("a/b"))),
		`principal "@"`:            second(gssapi.CredentialCache("a", with, gssapi.WithServerPrincipal("@"))),
		"a nil option":             second(gssapi.CredentialCache("a", with, nil)),
	} {
		require.ErrorContains(t, err, "gssapi: ")
		require.ErrorContains(t, err, want)
	}
}

func second(_ *gssapi.Mechanism, err error) error { return err }

// TestGSSAPIErrorsOfAKDC: each says what to look at. All are refusals.
func TestGSSAPIErrorsOfAKDC(t *testing.T) {
	for code, want := range map[int32]string{
		errorcode.KRB_AP_ERR_SKEW:             "the clocks of this machine and of the KDC differ",
		errorcode.KDC_ERR_CLIENT_REVOKED:      "the client's principal is locked",
		errorcode.KDC_ERR_KEY_EXPIRED:         "the client's password has expired",
		errorcode.KDC_ERR_C_PRINCIPAL_UNKNOWN: "the KDC does not know the client's principal",
		errorcode.KDC_ERR_ETYPE_NOSUPP:        "no encryption type in common",
		errorcode.KRB_ERR_GENERIC:             "KRB_ERR_GENERIC",
	} {
		answer := messages.NewKRBError(types.PrincipalName{NameString: []string{"krbtgt", "A"}}, "A", code, "")
		body, err := answer.Marshal()
		require.NoError(t, err)
		m := mechanismWithKDC(t, func(conn net.Conn) {
			var length [4]byte
			_, _ = io.ReadFull(conn, length[:])
			_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length[:])))
			_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
			_ = conn.Close()
		})
		_, err = m.Start(t.Context(), framework.SASLServer{Host: "a"})
		require.ErrorIs(t, err, framework.ErrAuthFailed)
		require.ErrorContains(t, err, want)
	}
}

// TestGSSAPINoKDC: it is no refusal, as it may pass.
func TestGSSAPINoKDC(t *testing.T) {
	m := mechanismWithKDC(t, func(conn net.Conn) { _ = conn.Close() })
	_, err := m.Start(t.Context(), framework.SASLServer{Host: "a"})
	require.ErrorContains(t, err, "no KDC could be reached")
	require.NotErrorIs(t, err, framework.ErrAuthFailed)
}

// mechanismWithKDC returns a mechanism whose KDC serves each connection by a function.
func mechanismWithKDC(t *testing.T, serve func(net.Conn)) *gssapi.Mechanism {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil,
		"[libdefaults]\n default_realm = A\n udp_preference_limit = 1\n[realms]\n A = {\n kdc = %s\n }\n", l.Addr()), 0o600))
	m, err := gssapi.Password("a", password("x"), gssapi.WithConfig(conf))
	require.NoError(t, err)
	return m
}

// TestGSSAPIPasswordFunctionThatMisbehaves: it runs on a goroutine of the mechanism, and costs the connection only.
func TestGSSAPIPasswordFunctionThatMisbehaves(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[libdefaults]\n default_realm = A\n"), 0o600))
	for want, misbehave := range map[string]func(){
		"a panic of type string":    func() { panic("wonderland") },
		"runtime.Goexit was called": runtime.Goexit,
	} {
		m, err := gssapi.Password("a", func(context.Context) (string, error) { misbehave(); return "", nil }, gssapi.WithConfig(conf))
		require.NoError(t, err)
		_, err = m.Start(t.Context(), framework.SASLServer{Host: "a"})
		require.ErrorIs(t, err, framework.ErrAuthFailed)
		require.ErrorContains(t, err, "a ticket for zookeeper/a")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "wonderland")
	}
}

// TestGSSAPISilentKDC: Start ends with its context.
func TestGSSAPISilentKDC(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	m := mechanismWithKDC(t, func(conn net.Conn) {
		cancel(errors.New("enough"))
		<-t.Context().Done() // a connection that ends with the context would give the exchange an error of its own
		_ = conn.Close()
	})
	_, err := m.Start(ctx, framework.SASLServer{Host: "a"})
	require.ErrorContains(t, err, "a ticket for zookeeper/a: enough")
	require.NotErrorIs(t, err, framework.ErrAuthFailed)
}
