// SPDX-License-Identifier: Apache-2.0

package grpcresolver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/grpcresolver"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

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

func newServices(tb testing.TB, client *framework.Framework) *services {
	tb.Helper()
	d := must.Get(discovery.NewServiceDiscovery[payload](client, "/services", discovery.JSONSerializer[payload]{Enabled: true}))(tb)
	tb.Cleanup(func() { require.NoError(tb, d.Close()) })
	return d
}

func newBuilder(tb testing.TB, d *services, cfg grpcresolver.Config[payload]) *grpcresolver.Builder[payload] {
	tb.Helper()
	b := must.Get(grpcresolver.NewBuilder(d, cfg))(tb)
	return b
}

// serve starts a gRPC server that tells its id in a header, and returns it as
// an instance that is not registered yet.
func serve(tb testing.TB, id string) instance {
	tb.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
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
	port := must.Get(strconv.Atoi(text))(tb)
	i := discovery.NewInstance[payload]("orders", host, port)
	i.ID = id
	return i
}

func dial(tb testing.TB, b resolver.Builder) *grpc.ClientConn {
	tb.Helper()
	conn := must.Get(grpc.NewClient("zookeeper:///orders", grpc.WithResolvers(b),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials())))(tb)
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
	ctx := zktest.Context(tb)
	for {
		seen := map[string]bool{}
		for range 4 * len(want) {
			id := must.Get(call(ctx, conn, grpc.WaitForReady(true)))(tb)
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

func TestResolverCallsFollowTheService(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		provider, consumer := newServices(t, zktest.Client(t, server)), newServices(t, zktest.Client(t, server))
		a, b := serve(t, "a"), serve(t, "b")
		require.NoError(t, provider.Register(zktest.Context(t), a))
		require.NoError(t, provider.Register(zktest.Context(t), b))
		conn := dial(t, newBuilder(t, consumer, grpcresolver.Config[payload]{}))
		awaitServers(t, conn, "a", "b")

		require.NoError(t, provider.Unregister(a))
		awaitServers(t, conn, "b")
		require.NoError(t, provider.Register(zktest.Context(t), serve(t, "c")))
		awaitServers(t, conn, "b", "c")
		b.Disabled = true
		require.NoError(t, provider.Update(zktest.Context(t), b))
		awaitServers(t, conn, "c")
	})
}

func TestResolverCallsGoOnWhileZooKeeperIsAway(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	d := newServices(t, client)
	require.NoError(t, d.Register(zktest.Context(t), serve(t, "a")))
	b := newBuilder(t, d, grpcresolver.Config[payload]{})
	_, used := b.Age("orders")
	require.False(t, used)
	conn := dial(t, b)
	awaitServers(t, conn, "a")
	another := must.Get(b.Build(resolver.Target{URL: url.URL{Path: "/invoices"}}, connection{states: make(chan resolver.State, 100)}, resolver.BuildOptions{}))(t)
	require.Eventually(t, func() bool { age, used := b.Age("orders"); return used && age == 0 }, limit, time.Millisecond)

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

// TestResolverOfAnIdleConnection: gRPC closes the resolver of a connection that is idle. The next one goes on with what was last
// known, but only if the servers do not tell what is there now.
func TestResolverOfAnIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		d, others := newServices(t, client), newServices(t, zktest.Client(t, server))
		register := func(id string) instance {
			i := discovery.NewInstance[payload]("orders", "10.0.0.7", 8080)
			i.ID = id
			require.NoError(t, others.Register(t.Context(), i))
			return i
		}
		a := register("a")
		b := newBuilder(t, d, grpcresolver.Config[payload]{})
		first := func() (known string, end func()) {
			conn := connection{states: make(chan resolver.State, 100)}
			r := must.Get(b.Build(resolver.Target{URL: url.URL{Path: "/orders"}}, conn, resolver.BuildOptions{}))(t)
			state := <-conn.states
			for _, endpoint := range state.Endpoints {
				attributes, _ := grpcresolver.AttributesOf(endpoint)
				known += attributes.ID
			}
			return known, r.Close
		}
		known, idle := first()
		require.Equal(t, "a", known)
		idle()
		register("b")
		require.NoError(t, others.Unregister(a))
		known, idle = first()
		require.Equal(t, "b", known, "what has gone meanwhile is not used")
		idle()
		require.NoError(t, server.Stop())
		began := time.Now()
		known, idle = first()
		require.Equal(t, "b", known)
		require.Less(t, time.Since(began), time.Second)
		idle()
		require.NoError(t, server.Restart())
	})
}

func TestResolverCallsWaitForTheFirstAnswerOfZooKeeper(t *testing.T) {
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

	require.NoError(t, d.Register(zktest.Context(t), i))
	awaitServers(t, conn, "a")
}

func TestResolverServiceWithoutInstancesFailsCallsAtOnce(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	conn := dial(t, newBuilder(t, d, grpcresolver.Config[payload]{}))
	_, err := call(zktest.Context(t), conn)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)

	require.NoError(t, d.Register(zktest.Context(t), serve(t, "a")))
	require.Equal(t, "a", must.Get(call(zktest.Context(t), conn, grpc.WaitForReady(true)))(t))
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

func TestResolverEndpointsHaveAttributes(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	register := func(id string, change func(*instance)) {
		i := discovery.NewInstance[payload]("orders", "10.0.0.7", 8080)
		ssl := 8443
		i.ID, i.SSLPort, i.Payload = id, &ssl, &payload{Weight: 7, Zone: "eu"}
		change(&i)
		require.NoError(t, d.Register(zktest.Context(t), i))
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
	r := must.Get(b.Build(target, conn, resolver.BuildOptions{}))(t)
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

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// An instance on which a function of the program panics is left out, and the log of the client has it once.
func TestResolverOneBadInstance(t *testing.T) {
	weight := func(i *instance) uint32 { return i.Payload.Weight } // panics without a payload
	for name, cfg := range map[string]grpcresolver.Config[payload]{
		"attributes": {Attributes: func(i *instance) grpcresolver.Attributes { return grpcresolver.Attributes{Weight: weight(i)} }},
		"a filter":   {Filters: []func(*instance) bool{func(i *instance) bool { return weight(i) < 100 }}},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			client := zktest.Client(t, zktest.NewServer(t), framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			d := newServices(t, client)
			good, bad := serve(t, "good"), serve(t, "bad")
			good.Payload = new(payload)
			require.NoError(t, d.Register(zktest.Context(t), good))
			require.NoError(t, d.Register(zktest.Context(t), bad))
			conn := dial(t, newBuilder(t, d, cfg))
			awaitServers(t, conn, "good")
			another := serve(t, "another")
			another.Payload = new(payload)
			require.NoError(t, d.Register(zktest.Context(t), another))
			awaitServers(t, conn, "good", "another")

			bad.Payload = new(payload)
			require.NoError(t, d.Update(zktest.Context(t), bad))

			awaitServers(t, conn, "good", "another", "bad")
			require.NoError(t, d.Close())
			require.NoError(t, client.Close()) // which writes what is in the queue of the log
			require.Equal(t, 1, strings.Count(log.all.String(), "curator.path=/services/orders/bad"), log.all.String())
		})
	}
}

// slowConnection takes its time for each state.
type slowConnection struct {
	resolver.ClientConn

	states chan int
	goOn   chan struct{}
}

func (c slowConnection) UpdateState(s resolver.State) error {
	c.states <- len(s.Endpoints)
	<-c.goOn
	return nil
}

func TestResolverSlowConnectionGetsTheNewestEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		d, writer := newServices(t, zktest.Client(t, server)), zktest.Client(t, server)
		asked := 0
		b := newBuilder(t, d, grpcresolver.Config[payload]{Attributes: func(*instance) grpcresolver.Attributes {
			asked++
			return grpcresolver.Attributes{}
		}})
		conn := slowConnection{states: make(chan int, 100), goOn: make(chan struct{})}
		r := must.Get(b.Build(resolver.Target{URL: url.URL{Path: "/orders"}}, conn, resolver.BuildOptions{}))(t)
		defer r.Close()
		require.Zero(t, <-conn.states)
		for n := range 50 {
			create(t, writer, n)
			synctest.Wait()
		}

		close(conn.goOn)

		require.Equal(t, 50, <-conn.states)
		synctest.Wait()
		require.Empty(t, conn.states, "no state in between is told")
		require.Equal(t, 50, asked, "once for each instance")
	})
}

func create(tb testing.TB, writer *framework.Framework, n int) {
	tb.Helper()
	must.Get(writer.Create(zktest.Context(tb), fmt.Sprintf("/services/orders/%05d", n),
		fmt.Appendf(nil, `{"name":"orders","id":"%05d","address":"127.0.0.1","port":%d}`, n, 1+n), framework.CreatingParentsIfNeeded()))(tb)
}

// told passes all on to gRPC, and notes the newest state that gRPC has taken.
type told struct {
	resolver.Builder

	newest *atomic.Value // of resolver.State
}

type toldConn struct {
	resolver.ClientConn

	newest *atomic.Value
}

func (s told) Build(target resolver.Target, conn resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	return s.Builder.Build(target, toldConn{conn, s.newest}, opts)
}

func (c toldConn) UpdateState(state resolver.State) error {
	err := c.ClientConn.UpdateState(state)
	c.newest.Store(state)
	return err
}

// BenchmarkReplacement measures when gRPC knows that all instances of a service are replaced at once,
// beside a CuratorCache of the same znodes: go test -bench Replacement -benchtime 1x.
func BenchmarkReplacement(b *testing.B) {
	for _, n := range []int{1000, 3000, 5000} {
		b.Run(fmt.Sprintf("instances=%d", n), func(b *testing.B) {
			for b.Loop() {
				replacement(b, n)
			}
		})
	}
}

func replacement(b *testing.B, n int) {
	b.Helper()
	server := zktest.NewServer(b)
	client, writer := zktest.Client(b, server), zktest.Client(b, server)
	for i := range n {
		create(b, writer, i)
	}
	plain := must.Get(cache.NewCuratorCache(client, "/services/orders"))(b)
	require.NoError(b, plain.Start())
	defer func() { require.NoError(b, plain.Close()) }()
	var newest atomic.Value
	conn := must.Get(grpc.NewClient("zookeeper:///orders", grpc.WithIdleTimeout(0), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(told{newBuilder(b, newServices(b, client), grpcresolver.Config[payload]{}), &newest})))(b)
	defer func() { require.NoError(b, conn.Close()) }()
	conn.Connect()
	knows := func(first string) bool {
		state, _ := newest.Load().(resolver.State)
		if len(state.Endpoints) != n {
			return false
		}
		known, _ := grpcresolver.AttributesOf(state.Endpoints[0])
		return known.ID == first
	}
	require.Eventually(b, func() bool { return knows("00000") }, limit, time.Millisecond)
	require.NoError(b, plain.Fresh(zktest.Context(b)))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)

	begin := time.Now()
	const batch = 100
	for first := 0; first < n; first += batch {
		var ops []framework.Op
		for i := first; i < first+batch; i++ {
			ops = append(ops, framework.DeleteOp(fmt.Sprintf("/services/orders/%05d", i)), framework.CreateOp(fmt.Sprintf("/services/orders/%05d", n+i),
				fmt.Appendf(nil, `{"name":"orders","id":"%05d","address":"127.0.0.1","port":%d}`, n+i, 1+n+i)))
		}
		must.Get(writer.Transact(zktest.Context(b), ops...))(b)
	}
	require.NoError(b, plain.Fresh(zktest.Context(b)))
	b.ReportMetric(float64(time.Since(begin).Milliseconds()), "cache-ms")
	peak := before.HeapAlloc
	for !knows(fmt.Sprintf("%05d", n)) {
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc)
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(time.Since(begin).Milliseconds()), "grpc-ms")
	b.ReportMetric(float64((peak-before.HeapAlloc)>>20), "heap-MB")
}

func TestCloseLeavesNothing(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	b := newBuilder(t, newServices(t, zktest.Client(t, server)), grpcresolver.Config[payload]{})
	target := resolver.Target{URL: url.URL{Path: "/orders"}}
	for i := range 20 {
		conn := connection{states: make(chan resolver.State, 100)}
		r := must.Get(b.Build(target, conn, resolver.BuildOptions{}))(t)
		r.ResolveNow(resolver.ResolveNowOptions{})
		if i%2 == 0 {
			<-conn.states // it follows the service
		}
		r.Close()
	}
	require.Eventually(t, func() bool {
		text, err := server.FourLetterWord(t.Context(), "wchs")
		return err == nil && strings.Contains(text, "Total watches:0")
	}, limit, time.Millisecond, "the client goes on without a watch")
}

// refused is a connection that notes what it is told to fail with.
type refused struct {
	resolver.ClientConn

	errs chan error
}

func (c refused) ReportError(err error) { c.errs <- err }

// TestResolverSaysWhyNothingIsKnown to calls, which would wait for ever.
func TestResolverSaysWhyNothingIsKnown(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	b := newBuilder(t, newServices(t, client), grpcresolver.Config[payload]{})
	require.NoError(t, client.Close())
	conn := refused{errs: make(chan error, 1)}
	r := must.Get(b.Build(resolver.Target{URL: url.URL{Path: "/orders"}}, conn, resolver.BuildOptions{}))(t)
	defer r.Close()
	require.ErrorIs(t, zktest.Await(t, conn.errs, "the reason"), framework.ErrClosed)
}

func TestResolverBadInput(t *testing.T) {
	_, err := grpcresolver.NewBuilder[payload](nil, grpcresolver.Config[payload]{})
	require.ErrorContains(t, err, "discovery nil")
	_, err = grpcresolver.NewBuilder(newServices(t, zktest.Client(t, zktest.NewServer(t))), grpcresolver.Config[payload]{Filters: make([]func(*instance) bool, 1)})
	require.ErrorContains(t, err, "filter 0 nil")
	b := newBuilder(t, newServices(t, zktest.Client(t, zktest.NewServer(t))), grpcresolver.Config[payload]{})
	for _, bad := range []string{"zookeeper://zk1:2181/orders", "zookeeper:///", "zookeeper:///a//b"} {
		conn, err := grpc.NewClient(bad, grpc.WithResolvers(b), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err == nil {
			_, err = call(zktest.Context(t), conn)
			require.NoError(t, conn.Close())
		}
		require.ErrorContains(t, err, "grpcresolver: target", bad)
	}
}
