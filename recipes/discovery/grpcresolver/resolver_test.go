package grpcresolver_test

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/grpcresolver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.WithSharedServers(m)) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

// payload is what the instances of the tests tell.
type payload struct {
	Weight uint32 `json:"weight"`
	Zone   string `json:"zone"`
}

type (
	services = discovery.ServiceDiscovery[payload]
	instance = discovery.ServiceInstance[payload]
)

func withLimit(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	tb.Cleanup(cancel)
	return ctx
}

func newServices(tb testing.TB, client *framework.Framework) *services {
	tb.Helper()
	d, err := discovery.NewServiceDiscovery[payload](client, "/services", discovery.JSONSerializer[payload]{Enabled: true})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, d.Close()) })
	return d
}

func newBuilder(tb testing.TB, d *services, cfg grpcresolver.Config[payload]) *grpcresolver.Builder[payload] {
	tb.Helper()
	b, err := grpcresolver.NewBuilder(d, cfg)
	require.NoError(tb, err)
	return b
}

// serve starts a gRPC server that tells its id in a header, and returns it as
// an instance that is not registered yet.
func serve(tb testing.TB, id string) instance {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if err := grpc.SetHeader(ctx, metadata.Pairs("id", id)); err != nil {
				return nil, err
			}
			return handler(ctx, request)
		}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Stop()
		require.NoError(tb, <-ended)
	})
	host, text, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(tb, err)
	port, err := strconv.Atoi(text)
	require.NoError(tb, err)
	i := discovery.NewInstance[payload]("orders", host, port)
	i.ID = id
	return i
}

func dial(tb testing.TB, b resolver.Builder) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient("zookeeper:///orders", grpc.WithResolvers(b),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return conn
}

// call returns the id of the server that has answered.
func call(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) (id string, err error) {
	var header metadata.MD
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, new(grpc_health_v1.HealthCheckRequest), append(opts, grpc.Header(&header))...)
	if ids := header.Get("id"); len(ids) > 0 {
		id = ids[0]
	}
	return id, err
}

// awaitServers calls until exactly these servers answer in turn.
func awaitServers(tb testing.TB, conn *grpc.ClientConn, want ...string) {
	tb.Helper()
	ctx := withLimit(tb)
	for {
		seen := map[string]bool{}
		for range 4 * len(want) {
			id, err := call(ctx, conn, grpc.WaitForReady(true))
			require.NoError(tb, err)
			seen[id] = true
		}
		same := len(seen) == len(want)
		for _, id := range want {
			same = same && seen[id]
		}
		if same {
			return
		}
		require.NoError(tb, ctx.Err(), "servers %v, expected %q", seen, want)
	}
}

func TestCallsFollowTheService(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		provider, consumer := newServices(t, zktest.Client(t, server)), newServices(t, zktest.Client(t, server))
		a, b := serve(t, "a"), serve(t, "b")
		require.NoError(t, provider.Register(withLimit(t), a))
		require.NoError(t, provider.Register(withLimit(t), b))
		conn := dial(t, newBuilder(t, consumer, grpcresolver.Config[payload]{}))
		awaitServers(t, conn, "a", "b")

		require.NoError(t, provider.Unregister(a))
		awaitServers(t, conn, "b")
		c := serve(t, "c")
		require.NoError(t, provider.Register(withLimit(t), c))
		awaitServers(t, conn, "b", "c")
		b.Disabled = true
		require.NoError(t, provider.Update(withLimit(t), b))
		awaitServers(t, conn, "c")
	})
}

func TestCallsGoOnWhileZooKeeperIsAway(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	d := newServices(t, client)
	require.NoError(t, d.Register(withLimit(t), serve(t, "a")))
	b := newBuilder(t, d, grpcresolver.Config[payload]{})
	_, used := b.Age("orders")
	require.False(t, used)
	conn := dial(t, b)
	awaitServers(t, conn, "a")
	another, err := b.Build(resolver.Target{URL: url.URL{Path: "/invoices"}}, connection{states: make(chan resolver.State, 100)}, resolver.BuildOptions{})
	require.NoError(t, err)
	age, used := b.Age("orders")
	require.True(t, used)
	require.Zero(t, age)

	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	require.Eventually(t, func() bool { age, _ := b.Age("orders"); return age > 0 }, limit, time.Millisecond)
	awaitServers(t, conn, "a")

	require.NoError(t, server.Restart())
	require.Eventually(t, func() bool { age, _ := b.Age("orders"); return age == 0 }, limit, time.Millisecond)
	awaitServers(t, conn, "a")
	_, used = b.Age("invoices")
	require.True(t, used)
	another.Close()
	_, used = b.Age("invoices")
	require.False(t, used)
}

func TestCallsWaitForTheFirstAnswerOfZooKeeper(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	d := newServices(t, client)
	i := serve(t, "a")
	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	conn := dial(t, newBuilder(t, d, grpcresolver.Config[payload]{}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := call(ctx, conn)
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "%v", err)

	require.NoError(t, server.Restart())

	require.NoError(t, d.Register(withLimit(t), i))
	awaitServers(t, conn, "a")
}

func TestAServiceWithoutInstancesFailsCallsAtOnce(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	conn := dial(t, newBuilder(t, d, grpcresolver.Config[payload]{}))
	_, err := call(withLimit(t), conn)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)

	require.NoError(t, d.Register(withLimit(t), serve(t, "a")))
	id, err := call(withLimit(t), conn, grpc.WaitForReady(true))
	require.NoError(t, err)
	require.Equal(t, "a", id)
}

// connection keeps the states that a resolver reports.
type connection struct {
	resolver.ClientConn

	states chan resolver.State
}

func (c connection) UpdateState(s resolver.State) error {
	c.states <- s
	return nil
}

func TestEndpointsHaveAttributes(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	register := func(id string, change func(*instance)) {
		i := discovery.NewInstance[payload]("orders", "10.0.0.7", 8080)
		ssl := 8443
		i.ID, i.SSLPort, i.Payload = id, &ssl, &payload{Weight: 7, Zone: "eu"}
		change(&i)
		require.NoError(t, d.Register(withLimit(t), i))
	}
	register("a", func(*instance) {})
	register("another zone", func(i *instance) { i.Payload.Zone = "us" })
	register("disabled", func(i *instance) { i.Disabled = true })
	register("no address", func(i *instance) { i.Address = "" })
	register("no port", func(i *instance) { i.SSLPort = nil })
	b := newBuilder(t, d, grpcresolver.Config[payload]{
		SSLPort: true,
		Filters: []func(*instance) bool{func(i *instance) bool { return i.Payload.Zone == "eu" }},
		Attributes: func(i *instance) grpcresolver.Attributes {
			return grpcresolver.Attributes{Weight: i.Payload.Weight, Zone: i.Payload.Zone}
		},
	})
	conn := connection{states: make(chan resolver.State, 100)}
	target := resolver.Target{URL: url.URL{Path: "/orders"}}
	r, err := b.Build(target, conn, resolver.BuildOptions{})
	require.NoError(t, err)
	defer r.Close()

	state := zktest.Await(t, conn.states, "the first state")

	require.Len(t, state.Endpoints, 1)
	require.Len(t, state.Addresses, 1)
	require.Equal(t, "10.0.0.7:8443", state.Endpoints[0].Addresses[0].Addr)
	known, ok := grpcresolver.AttributesOf(state.Endpoints[0])
	require.True(t, ok)
	require.Equal(t, grpcresolver.Attributes{ID: "a", Weight: 7, Zone: "eu"}, known)
	_, ok = grpcresolver.AttributesOf(resolver.Endpoint{})
	require.False(t, ok)
}

func TestCloseLeavesNothing(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	b := newBuilder(t, newServices(t, zktest.Client(t, server)), grpcresolver.Config[payload]{})
	target := resolver.Target{URL: url.URL{Path: "/orders"}}
	for range 20 {
		r, err := b.Build(target, connection{states: make(chan resolver.State, 100)}, resolver.BuildOptions{})
		require.NoError(t, err)
		r.ResolveNow(resolver.ResolveNowOptions{})
		r.Close()
	}
}

func TestBadInput(t *testing.T) {
	_, err := grpcresolver.NewBuilder[payload](nil, grpcresolver.Config[payload]{})
	require.ErrorContains(t, err, "discovery nil")
	b := newBuilder(t, newServices(t, zktest.Client(t, zktest.NewServer(t))), grpcresolver.Config[payload]{})
	for _, bad := range []string{"zookeeper://zk1:2181/orders", "zookeeper:///", "zookeeper:///a//b"} {
		conn, err := grpc.NewClient(bad, grpc.WithResolvers(b), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err == nil {
			_, err = call(withLimit(t), conn)
			require.NoError(t, conn.Close())
		}
		require.ErrorContains(t, err, "grpcresolver: target", bad)
	}
}
