// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestBadInputOptions: what New does not accept, and how it says so.
func TestBadInputOptions(t *testing.T) {
	for says, option := range map[string]framework.Option{
		"a nil option":                                              nil,
		"ACL provider nil, expected one":                            framework.WithACLProvider(nil),
		"compression provider nil, expected one":                    framework.WithCompressionProvider(nil),
		"meter provider nil, expected a metric":                     framework.WithMeterProvider(nil),
		"tracer provider nil, expected a trace":                     framework.WithTracerProvider(nil),
		"TLS configuration nil, expected a *tls.Config":             framework.WithTLS(nil),
		"retry policy nil, expected a policy":                       framework.WithRetryPolicy(nil),
		"expected AllowRetry(err error, retryable bool)":            framework.WithRetryPolicy(ported{retry.None()}),
		"logger nil, expected a *slog.Logger":                       framework.WithLogger(nil),
		"dialer nil, expected a function":                           framework.WithDialer(nil),
		`auth scheme "", expected one such as "digest"`:             framework.WithAuth("", nil),
		"credential of 2097158 bytes, expected 1047552":             framework.WithAuth("digest", bytes.Repeat([]byte(":"), 2<<20)),
		"digest credential without a colon, expected user:password": framework.WithAuth("digest", []byte("alice")),
		"credential of 2097153 bytes, expected 1047552":             framework.WithAuth(strings.Repeat("x", 2<<20), []byte("x")),
		"function nil, expected one from a server's line":           framework.WithTrackedAddress(nil),
		"function nil, expected the rank of a server":               framework.WithServerOrder(nil),
		"server timing 0s and 0 ticks, expected 1ms":                framework.WithServerTiming(0, 0),
		"server timing 1s and -5 ticks, expected 1ms":               framework.WithServerTiming(time.Second, -5),
		"server timing 2562047h47m16.854775807s and 1 tick":         framework.WithServerTiming(math.MaxInt64, 1),
		"server timing 1s and 86401 ticks, expected 1ms or":         framework.WithServerTiming(time.Second, 86401),
		"session timeout -1ns, expected 100ms to 24h":               framework.WithSessionTimeout(-1),
		"session timeout 0s, expected 100ms to 24h":                 framework.WithSessionTimeout(0),
		"session timeout 25h0m0s, expected 100ms to 24h":            framework.WithSessionTimeout(25 * time.Hour),
		"connection timeout -1ns, expected more than 0":             framework.WithConnectionTimeout(-1),
		"maximal request size -1, expected 1024 or more":            framework.WithMaxRequestSize(-1),
		"maximal reply size -1, expected 1024 or more":              framework.WithMaxReplySize(-1),
		"error policy 9, expected StandardErrorPolicy":              framework.WithErrorPolicy(9),
		"error policy -1, expected StandardErrorPolicy":             framework.WithErrorPolicy(-1),
		"maximal reply size -922337203685477580":                    framework.WithMaxReplySize(math.MinInt),
		"session timeout -2562047h47m16.854775808s, expect":         framework.WithSessionTimeout(math.MinInt64),
		"retry policy nil, expected":                                framework.WithRetryPolicy((*retry.Budget)(nil)), // a nil pointer, from here on
		"ensemble provider nil, expected":                           framework.WithEnsembleProvider((*framework.DynamicEnsembleProvider)(nil)),
		"ACL provider nil, expected":                                framework.WithACLProvider((*lists)(nil)),
		"compression provider nil, expected":                        framework.WithCompressionProvider((*framework.GzipCompressionProvider)(nil)),
		"SASL mechanism nil, expected":                              framework.WithSASL((*badMechanism)(nil)),
		"meter provider nil, expected":                              framework.WithMeterProvider((*sdkmetric.MeterProvider)(nil)),
		"tracer provider nil, expected":                             framework.WithTracerProvider((*sdktrace.TracerProvider)(nil)),
	} {
		_, err := framework.New("a", option)
		require.ErrorIs(t, err, framework.ErrInvalidOption, says)
		require.ErrorContains(t, err, "framework: ", says)
		require.ErrorContains(t, err, says)
	}
}

// ported is a retry policy with Java's allowRetry(Throwable).
type ported struct{ retry.Policy }

func (ported) AllowRetry(error) bool { return false }

// TestBadInput: the error of each call says what was wrong and what was expected, and
// nothing has been sent. Bad paths are in TestPathVerbsRefuseBadPaths, sizes in TestPathSizes, server
// lists in TestConnectStrings.
func TestBadInput(t *testing.T) {
	create := func(opts ...framework.CreateOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			_, err := f.Create(ctx, "/x", nil, opts...)
			return err
		}
	}
	transact := func(ops ...framework.Op) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			_, err := f.Transact(ctx, ops...)
			return err
		}
	}
	exists := func(opts ...framework.ReadOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			_, err := f.Exists(ctx, "/x", opts...)
			return err
		}
	}
	children := func(opts ...framework.ReadOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			_, err := f.Children(ctx, "/x", opts...)
			return err
		}
	}
	getACL := func(opts ...framework.ReadOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			_, err := f.GetACL(ctx, "/x", opts...)
			return err
		}
	}
	setACL := func(opts ...framework.SetOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			return f.SetACL(ctx, "/x", creatorOnly(), opts...)
		}
	}
	follow := func(opts ...framework.ReadOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) (err error) {
			for _, err = range f.Follow(ctx, "/x", opts...) {
				break
			}
			return err
		}
	}
	pipeline := func(reads ...framework.Read) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error { return f.Pipeline(ctx, reads...) }
	}
	remove := func(opts ...framework.DeleteOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error { return f.Delete(ctx, "/x", opts...) }
	}
	get := func(opts ...framework.ReadOption) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			_, err := f.Get(ctx, "/x", opts...)
			return err
		}
	}
	reconfig := func(change framework.Reconfiguration) func(context.Context, *framework.Framework) error {
		return func(ctx context.Context, f *framework.Framework) error {
			_, err := f.Reconfig(ctx, change)
			return err
		}
	}
	withTTL, sequential := framework.WithMode(framework.PersistentWithTTL), framework.WithMode(framework.PersistentSequential)
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	requests := countRequests(server)
	for says, call := range map[string]func(context.Context, *framework.Framework) error{
		"create /x: invalid option: a nil option":                               create(nil),
		"create mode 99, expected one of the seven":                             create(framework.WithMode(99)),
		"create mode -1, expected one of the seven":                             create(framework.WithMode(-1)),
		"WithTTL(1s) with mode 0, expected WithMode(PersistentWithTTL)":         create(framework.WithTTL(time.Second)),
		"WithMode(5) without WithTTL, expected both":                            create(withTTL),
		"time to live 0s, expected 1ms to":                                      create(withTTL, framework.WithTTL(0)),
		"time to live -1s, expected 1ms to":                                     create(withTTL, framework.WithTTL(-time.Second)),
		"time to live 2562047h47m16.854775807s, expected 1ms to":                create(withTTL, framework.WithTTL(math.MaxInt64)),
		"WithACL(), expected one entry or more":                                 create(framework.WithACL()),
		"InSession(nil), expected a session":                                    create(framework.InSession(nil)),
		"InHistory(0), expected a number that History has returned":             create(framework.InHistory(0)),
		"ListingSiblingsIn(nil), expected a place for the names":                create(framework.ListingSiblingsIn(nil)),
		"create /x: invalid option: StoringStatIn(nil), expected":               create(framework.StoringStatIn(nil)),
		"Idempotent with WithMode(2), which is sequential: the name is":         create(framework.Idempotent(), sequential),
		"OrSetData with WithProtection: the name is always new":                 create(framework.OrSetData(), framework.WithProtection()),
		"ApplyingACLToParents without WithACL, expected both":                   create(framework.ApplyingACLToParents()),
		"ApplyingACLToParents without CreatingParentsIfNeeded or":               create(framework.ApplyingACLToParents(), framework.WithACL(creatorOnly()...)),
		"Compressed and Uncompressed, expected one of them":                     create(framework.Compressed(), framework.Uncompressed()),
		"Decompressed and Undecompressed, expected one of them":                 get(framework.Decompressed(), framework.Undecompressed()),
		"CreatingParentsIfNeeded and CreatingParentContainersIfNeeded":          create(framework.CreatingParentsIfNeeded(), framework.CreatingParentContainersIfNeeded()),
		"get /x: invalid option: WithReplyLimit at Get, which takes":            get(framework.WithReplyLimit(1 << 20)),
		"get /x: invalid option: CreatingParentsIfNeeded at Get, which":         get(framework.CreatingParentsIfNeeded()),
		"exists /x: invalid option: StoringStatIn at Exists, which":             exists(framework.StoringStatIn(new(framework.Stat))),
		"exists /x: invalid option: Decompressed at Exists, which":              exists(framework.Decompressed()),
		"exists /x: invalid option: CreatingParentsIfNeeded at ReadStat":        pipeline(framework.ReadStat("/x", new(*framework.Stat), framework.CreatingParentsIfNeeded())),
		"children /x: invalid option: StoringAbsenceIn at Children":             children(framework.StoringAbsenceIn(new(bool))),
		"get ACL /x: invalid option: Watched at GetACL, which takes":            getACL(framework.Watched(new(*framework.Watch))),
		"set ACL /x: invalid option: Idempotent at SetACL, which takes":         setACL(framework.Idempotent()),
		"set ACL /x: invalid option: Compressed at SetACL, which takes":         setACL(framework.Compressed()),
		"follow /x: invalid option: WithRetry at Follow, which takes":           follow(framework.WithRetry(retry.None())),
		"InSession in a pipeline of several reads, expected":                    pipeline(framework.ReadData("/x", nil), framework.ReadData("/x", nil, framework.InSession(f.Session()))),
		"retry: invalid option: a nil option":                                   func(ctx context.Context, f *framework.Framework) error { return f.Retry(ctx, nil, nil) },
		"WithRetry with InBackground, which goes on until it has":               remove(framework.InBackground(), framework.WithRetry(retry.None())),
		"get /x: invalid option: a nil option":                                  get(nil),
		"Watched(nil), expected a place for the *Watch":                         get(framework.Watched(nil)),
		"get /x: invalid option: StoringStatIn(nil), expected":                  get(framework.StoringStatIn(nil)),
		"transact: operation 1: invalid option: the zero Op, expected":          transact(framework.CheckOp("/a", framework.AnyVersion), framework.Op{}),
		"transact /x: set, operation 0: invalid option: a nil option":           transact(framework.SetDataOp("/x", nil, nil)),
		"transact /x: delete, operation 0: invalid option: Quietly at DeleteOp": transact(framework.DeleteOp("/x", framework.Quietly())),
		"a Reconfiguration without Joining, Leaving or Members":                 reconfig(framework.Reconfiguration{From: 1}),
		"a Reconfiguration with Members together with Joining or":               reconfig(framework.Reconfiguration{Joining: []string{"a"}, Members: []string{"b"}}),
		"a Reconfiguration from version -1, expected a version, or 0":           reconfig(framework.Reconfiguration{Leaving: []string{"a"}, From: -1}),
		`server "", expected one server without a comma`:                        reconfig(framework.Reconfiguration{Joining: []string{""}}),
		`server "1,2", expected one server without a comma`:                     reconfig(framework.Reconfiguration{Leaving: []string{"1,2"}}),
		"pipeline: invalid option: the zero Read, expected one of ":             func(ctx context.Context, f *framework.Framework) error { return f.Pipeline(ctx, framework.Read{}) },
		"delete /x: invalid option: a nil option":                               remove(nil),
		"set /x: invalid option: a nil option":                                  func(ctx context.Context, f *framework.Framework) error { return f.Set(ctx, "/x", nil, nil) },
		"set ACL /x: invalid option: a nil option":                              setACL(nil),
		"watch mode 7, expected WatchPersistent or": func(ctx context.Context, f *framework.Framework) error {
			_, err := f.AddWatch(ctx, "/x", 7)
			return err
		},
		"hold: invalid option: error policy 9, expected Standard": func(ctx context.Context, f *framework.Framework) error {
			_, _, err := f.Session().Hold(ctx, 9)
			return err
		},
	} {
		err := call(t.Context(), f)
		require.ErrorIs(t, err, framework.ErrInvalidOption, says)
		require.ErrorContains(t, err, "framework: ", says)
		require.ErrorContains(t, err, says)
		require.False(t, framework.Retryable(err), says)
		require.False(t, framework.OutcomeUnknown(err), says)
	}
	_, err := f.UsingNamespace("a", framework.WithCompression(), framework.WithReadOnly())
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	require.EqualError(t, err, `framework: namespace "a": invalid option: WithReadOnly is an option of clients, expected one of views: WithCompression`)
	for _, namespace := range []string{"", "/a", "a/", "a//b", "..", "\x00", "zookeeper"} {
		_, err := f.UsingNamespace(namespace)
		require.ErrorIs(t, err, framework.ErrInvalidPath, "%q", namespace)
		require.ErrorContains(t, err, strconv.Quote(namespace))
		require.NotContains(t, err.Error(), strconv.Quote("/"+namespace), "a path that the caller has not written")
	}
	require.Zero(t, requests(), "nothing was sent")
}

// TestBadInputNilContexts: an error for every call that can return one, before anything is sent.
func TestBadInputNilContexts(t *testing.T) {
	var none context.Context
	calls := map[string]func(ctx context.Context, f *framework.Framework, path string) error{
		"block": func(ctx context.Context, f *framework.Framework, _ string) error { return f.BlockUntilConnected(ctx) },
		"connect": func(ctx context.Context, f *framework.Framework, _ string) error {
			_, err := framework.Connect(ctx, f.String())
			return err
		},
		"mkdirs": func(ctx context.Context, f *framework.Framework, path string) error { return f.Mkdirs(ctx, path) },
		"delete children": func(ctx context.Context, f *framework.Framework, path string) error {
			return f.DeleteChildren(ctx, path)
		},
		"hold": func(ctx context.Context, f *framework.Framework, _ string) error {
			_, _, err := f.Session().Hold(ctx, framework.QuorumErrorPolicy)
			return err
		},
	}
	for name, call := range withOption {
		calls["with an option, "+name] = func(ctx context.Context, f *framework.Framework, _ string) error {
			return call(ctx, f, framework.WithRetry(retry.None()))
		}
	}
	for name, verb := range verbs {
		calls["verb "+name] = verb
	}
	server := zktest.NewServer(t)
	observed := newObserved()
	for _, opts := range [][]framework.Option{nil, observed.options()} {
		f := zktest.Client(t, server.Addr(), opts...)
		requests := countRequests(server)
		for name, call := range calls {
			err := call(none, f, "/a")
			require.ErrorIs(t, err, framework.ErrInvalidOption, name)
			require.ErrorContains(t, err, "context nil, expected one such as context.Background()", name)
			require.NotErrorIs(t, err, framework.ErrCleanupPending, name)
		}
		require.ErrorIs(t, unstarted(t).BlockUntilConnected(none), framework.ErrInvalidOption)
		require.NoError(t, f.Close()) // waits for whatever goes on in the background
		require.LessOrEqual(t, requests(), 2, "the session that Connect opened and that of this client have been closed")
	}
}

// TestBadInputNilFunctions: what cannot return an error panics where the mistake is, and not
// on a goroutine that calls it later.
func TestBadInputNilFunctions(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t).Addr())
	var w *framework.Watch
	must.Get(f.Get(t.Context(), "/", framework.Watched(&w)))(t)
	persistent := must.Get(f.AddWatch(t.Context(), "/", framework.WatchPersistent))(t)
	require.PanicsWithValue(t, "framework: OnFired of a nil function, expected a func(Event)", func() { w.OnFired(nil) })
	require.PanicsWithValue(t, "framework: EndOnDeletion of a nil function, expected one of context.WithCancelCause",
		func() { w.EndOnDeletion(nil, nil) })
	provider := must.Get(framework.NewDynamicEnsembleProvider("a"))(t)
	require.Panics(t, func() { provider.OnChange(nil) })
	require.Panics(t, func() { persistent.OnEvent(nil) })
	require.Panics(t, func() { f.OnConnectionState(nil) })
	persistent.Cancel()
	w.Cancel()
}

// TestBadInputDialerThatReturnsNothing: the error says so, and no goroutine of the client
// panics.
func TestBadInputDialerThatReturnsNothing(t *testing.T) {
	for _, over := range [][]framework.Option{nil, {framework.WithTLS(&tls.Config{})}} {
		f := must.Get(framework.New("a:1", append(over,
			framework.WithConnectionTimeout(100*time.Millisecond), framework.WithRetryPolicy(retry.None()),
			framework.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, nil }))...))(t)
		require.NoError(t, f.Start())
		_, err := f.Get(t.Context(), "/")
		require.ErrorIs(t, err, framework.ErrNotConnected)
		require.ErrorContains(t, err, "neither a connection nor an error")
		closeInTime(t, f)
	}
}

// TestSplitPathOfNoPath: it has no error to return, and must not panic.
func TestSplitPathOfNoPath(t *testing.T) {
	for path, name := range map[string]string{"": "", "a": "a", "/": ""} {
		parent, last := framework.SplitPath(path)
		require.Equal(t, "/", parent, "%q", path)
		require.Equal(t, name, last, "%q", path)
	}
}

// TestBadInputNoAuthIsSaidOnce: it is not repeated, and nothing is tried with fewer rights
// or with none.
func TestBadInputNoAuthIsSaidOnce(t *testing.T) {
	server := zktest.NewServer(t)
	owner := zktest.Client(t, server.Addr(), framework.WithAuth("digest", []byte(credential)))
	mustCreate(t, owner, "/private", framework.WithACL(creatorOnly()...))
	f := zktest.Client(t, server.Addr(), framework.WithAuth("digest", []byte("alice:x")),
		framework.WithRetryPolicy(retry.NTimes(5, time.Millisecond)))
	for name, path := range map[string]string{
		"create": "/private/a", "create idempotent": "/private/a", "get": "/private", "set": "/private", "children": "/private",
		"set ACL": "/private", "set idempotent": "/private",
	} {
		requests := countRequests(server)
		err := verbs[name](t.Context(), f, path)
		require.ErrorIs(t, err, framework.ErrNoAuth, name)
		require.False(t, framework.Retryable(err), name)
		want := 1
		if strings.HasPrefix(name, "create") {
			want = 2 // it looks whether the znode exists
		}
		require.Equal(t, want, requests(), name)
	}
	require.Empty(t, must.Get(owner.Children(t.Context(), "/private"))(t))
}

// TestBadInputSecretsAreToldToNobody gives a client a secret in each place that takes one, sends
// it through good and bad times and looks for it in all that comes out: log, errors, spans,
// metrics, health, and whatever fmt makes of the values that a program has.
func TestBadInputSecretsAreToldToNobody(t *testing.T) {
	const secret = "open-sesame"
	said, observed := &safeBuffer{}, newObserved()
	all := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	log := slog.New(slog.NewMultiHandler(slog.NewJSONHandler(said, all), slog.NewTextHandler(said, all)))
	server := zktest.NewServer(t, zkserver.WithSASLUsers(map[string]string{"alice": secret}))
	proxy := zktest.NewProxy(t, server.Addr())
	auth := framework.WithAuth("digest", []byte("alice:"+secret))
	f := zktest.Client(t, proxy.Addr(), observed.options(auth, framework.WithSASL(framework.DigestMD5("alice", secret)),
		framework.WithGuard(filepath.Join(t.TempDir(), "none")), framework.WithLogger(log), framework.WithPathAttribute(),
		framework.WithRetryPolicy(retry.NTimes(2, time.Millisecond)))...)
	states := recordStates(f)
	tell := func(values ...any) {
		for _, v := range values {
			log.Info("value", "it", v)
			for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				must.Get(fmt.Fprintf(said, format+"\n", v))(t)
			}
		}
	}

	data := []byte("data " + secret)
	mustCreate(t, f, "/a", framework.WithACL(creatorOnly()...))
	require.NoError(t, f.Set(t.Context(), "/a", data, framework.Compressed()))
	_, exists := f.Create(t.Context(), "/a", data)
	require.ErrorIs(t, exists, framework.ErrNodeExists)
	tooLarge := f.Set(t.Context(), "/a", bytes.Repeat(data, 1<<17))
	require.ErrorIs(t, tooLarge, framework.ErrTooLarge)
	_, transaction := f.Transact(t.Context(), framework.SetDataOp("/a", data), framework.SetDataOp("/none", data))
	require.ErrorIs(t, transaction, framework.ErrNoNode)
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpSetData {
			return zkserver.LoseReply
		}
		return zkserver.Pass
	})
	inDoubt := f.Set(t.Context(), "/a", data)
	require.True(t, framework.OutcomeUnknown(inDoubt))
	remove()
	states.expect(t, framework.Suspended, framework.Reconnected)
	session := f.Session()
	_, noScheme := framework.New("a", framework.WithAuth("", []byte(secret)))
	_, tooLong := framework.New("a", framework.WithAuth("digest", bytes.Repeat([]byte(secret), 1<<17)))
	_, refusal := framework.Connect(t.Context(), server.Addr(), framework.WithLogger(log),
		framework.WithAuth("nosuchscheme", []byte(secret)), framework.WithRetryPolicy(retry.None()))
	require.ErrorIs(t, refusal, framework.ErrAuthFailed)
	reports, _ := f.Telemetry()
	tell(f, session, f.Health(), auth, framework.SetDataOp("/a", data), reports,
		exists, tooLarge, transaction, inDoubt, noScheme, tooLong, refusal)
	require.NoError(t, f.Close())
	// fmt reads the fields of a context and of *f without their locks, so it may have these of a closed client alone.
	tell(f, *f, session, session.Err(), session.Context(framework.StandardErrorPolicy))
	for _, span := range observed.spans.Ended() {
		tell(span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	tell(observed.values(t))

	text := said.String()
	lower := strings.ToLower(text) // of %x and %#v
	require.Contains(t, text, "/a", "the test reads what is told")
	for _, secret := range []string{secret, string(session.Password())} {
		for _, form := range []string{
			secret, hex.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte(secret)),
			strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]"), strings.Trim(strconv.Quote(secret), `"`),
			strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(secret)), "[]byte"), "{}"),
		} {
			for _, said := range []string{text, lower} {
				if before, _, told := strings.Cut(said, form); told {
					t.Fatalf("%q is told after %q", form, before[max(len(before)-300, 0):])
				}
			}
		}
	}
}

// A long path is cut in an error, with its length, so that it is not taken for another path. The error has it whole.
func TestErrorsCutLongPaths(t *testing.T) {
	path := "/" + strings.Repeat("é", 600_000)
	err := &framework.OpError{Op: "get", Path: path, Err: framework.ErrNoNode}
	require.Contains(t, err.Error(), "é... (a path of 1200001 bytes): ")
	require.Less(t, len(err.Error()), 1100)
	require.Contains(t, framework.ValidatePath(path+"/").Error(), `é"... (a path of 1200002 bytes): it ends with a slash`)
	require.Contains(t, (&framework.OpError{Op: "get", Path: "/a", Err: framework.ErrNoNode}).Error(), "get /a: ")
}
