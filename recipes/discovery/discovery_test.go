// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

type services = discovery.ServiceDiscovery[string]

type instance = discovery.ServiceInstance[string]

func newServices(tb testing.TB, client *framework.Framework) *services {
	tb.Helper()
	d, err := discovery.NewServiceDiscovery(client, "/services", discovery.Serializer[string](discovery.JSONSerializer[string]{Enabled: true}))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, d.Close()) })
	return d
}

func newInstance(id string) instance {
	i := discovery.NewInstance[string]("orders", "127.0.0.1", 8080)
	i.ID = id
	return i
}

func register(tb testing.TB, d *services, i instance) instance {
	tb.Helper()
	require.NoError(tb, d.Register(zktest.Context(tb), i))
	return i
}

func newProvider(tb testing.TB, d *services, cfg discovery.ProviderConfig[string]) *discovery.ServiceProvider[string] {
	tb.Helper()
	p := must.Get(d.NewProvider("orders", cfg))(tb)
	tb.Cleanup(func() { require.NoError(tb, p.Close()) })
	require.NoError(tb, p.Start())
	require.NoError(tb, p.Wait(zktest.Context(tb)))
	return p
}

func ids(instances []*instance) []string {
	found := []string{}
	for _, i := range instances {
		found = append(found, i.ID)
	}
	return found
}

func awaitIDs(tb testing.TB, p *discovery.ServiceProvider[string], want ...string) {
	tb.Helper()
	require.Eventually(tb, func() bool { return slices.Equal(ids(p.Instances()), want) }, limit, time.Millisecond, "%q", want)
}

// awaitFresh waits until the provider has all that its process has heard of.
func awaitFresh(tb testing.TB, p *discovery.ServiceProvider[string]) {
	tb.Helper()
	require.Eventually(tb, func() bool { return p.Age() == 0 }, limit, time.Millisecond)
}

func TestInstancesOfEachType(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		d, seen := newServices(t, client), newServices(t, other)
		for _, kind := range []discovery.ServiceType{discovery.Dynamic, discovery.Static, discovery.Permanent, discovery.DynamicSequential} {
			i := newInstance(strings.ToLower(string(kind)))
			i.Type = kind
			register(t, d, i)
			payload := "newer"
			i.Payload = &payload
			require.NoError(t, d.Update(zktest.Context(t), i))

			found := must.Get(seen.Instances(zktest.Context(t), "orders"))(t)
			require.Equal(t, []instance{i}, found)
			names, err := seen.Names(zktest.Context(t)) // soon after the last instance the folder is gone
			require.NoError(t, err)
			require.Equal(t, []string{"orders"}, names)
			kept, err := d.Registered(i)
			require.True(t, kept)
			require.NoError(t, err)
			require.NoError(t, d.Unregister(i))
			found = must.Get(seen.Instances(zktest.Context(t), "orders"))(t)
			require.Empty(t, found, "Unregister has waited for it")
			require.ErrorIs(t, d.Update(zktest.Context(t), i), discovery.ErrNotRegistered)
		}
		_, found, err := seen.Instance(zktest.Context(t), "orders", "x")
		require.NoError(t, err)
		require.False(t, found)
	})
}

// awaitOwner waits until the instance a belongs to the client's session.
func awaitOwner(tb testing.TB, client, witness *framework.Framework) {
	tb.Helper()
	for node, err := range witness.Follow(zktest.Context(tb), "/services/orders/a") {
		require.NoError(tb, err)
		if node.Exists() && node.Stat.EphemeralOwner == client.Session().ID() {
			return
		}
	}
}

func TestDiscoveryCacheWhoseClientIsClosedBeforeItIsFullFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Path != "" {
				return zkserver.NeverAnswer
			}
			return zkserver.Pass
		})
		d := newServices(t, client)
		c := must.Get(d.NewCache("orders"))(t)
		p := must.Get(d.NewProvider("orders", discovery.ProviderConfig[string]{}))(t)
		results := make(chan error, 2)
		require.NoError(t, c.Start())
		require.NoError(t, p.Start())
		for _, wait := range []func(context.Context) error{c.Wait, p.Wait} {
			go func() { results <- wait(zktest.Context(t)) }()
		}
		synctest.Wait()

		require.Error(t, client.Close(), "the server does not answer")

		require.ErrorIs(t, <-results, framework.ErrClosed)
		require.ErrorIs(t, <-results, framework.ErrClosed)
		require.ErrorIs(t, c.Wait(zktest.Context(t)), framework.ErrClosed)
		require.NoError(t, c.Close())
		require.NoError(t, p.Close())
	})
}

func TestDiscoveryProviderReturnsNoDisabledInstance(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	a, b := register(t, d, newInstance("a")), register(t, d, newInstance("b"))
	p := newProvider(t, d, discovery.ProviderConfig[string]{})
	awaitIDs(t, p, "a", "b")

	b.Disabled = true
	require.NoError(t, d.Update(zktest.Context(t), b))
	awaitIDs(t, p, "a")
	for range 10 {
		require.Equal(t, "a", must.Get(p.Instance())(t).ID)
	}
	a.Disabled = true
	require.NoError(t, d.Update(zktest.Context(t), a))
	awaitIDs(t, p)
	_, err := p.Instance()
	require.ErrorIs(t, err, discovery.ErrNoInstance)
}

func TestDiscoveryStrategies(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	for _, id := range []string{"a", "b", "c"} {
		register(t, d, newInstance(id))
	}
	for name, test := range map[string]struct {
		strategy discovery.Strategy
		most     int // that one instance gets of 300 calls
	}{
		"round robin": {discovery.RoundRobin(), 100},
		"random":      {discovery.RandomFrom(seeds.New(t)), 160},
		"sticky":      {discovery.Sticky(discovery.RoundRobin()), 300},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, d, discovery.ProviderConfig[string]{Strategy: test.strategy, Down: discovery.DownInstancePolicy{Threshold: 1}})
			counts := map[string]int{}
			var last *instance
			for range 300 {
				got := must.Get(p.Instance())(t)
				counts[got.ID]++
				last = got
			}
			for id, n := range counts {
				require.LessOrEqual(t, n, test.most, id)
			}
			require.Equal(t, name == "sticky", len(counts) == 1)
			p.NoteError(last)
			require.NotContains(t, ids(p.Instances()), last.ID)
			for range 30 {
				require.NotEqual(t, last.ID, must.Get(p.Instance())(t).ID, "it is down")
			}
		})
	}
}

func TestDiscoveryLookUpCostsNothing(t *testing.T) {
	server := zktest.NewServer(t)
	registering := newServices(t, zktest.Client(t, server))
	for _, id := range []string{"a", "b", "c"} {
		register(t, registering, newInstance(id))
	}
	// The client that registers the instances still sends requests to watch them, so the
	// provider gets another one.
	looking := zktest.Client(t, server)
	d := newServices(t, looking)
	for _, strategy := range []discovery.Strategy{discovery.RoundRobin(), discovery.Random(), discovery.Sticky(discovery.Random())} {
		p := newProvider(t, d, discovery.ProviderConfig[string]{Strategy: strategy})
		awaitIDs(t, p, "a", "b", "c")
		var requests atomic.Int64
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == looking.Session().ID() && r.Op != zkserver.OpPing {
				requests.Add(1)
			}
			return zkserver.Pass
		})
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if _, err := p.Instance(); err != nil {
				t.Error(err)
			}
		}))
		require.Zero(t, requests.Load())
		remove()
	}
}

func TestDiscoveryProviderThatIsCutOffGoesOn(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	d := newServices(t, client)
	register(t, d, newInstance("a"))
	p := newProvider(t, d, discovery.ProviderConfig[string]{})
	awaitIDs(t, p, "a")
	awaitFresh(t, p)

	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	require.Eventually(t, func() bool { return p.Age() > 0 }, limit, time.Millisecond)
	require.Equal(t, "a", must.Get(p.Instance())(t).ID)

	asked, answer := make(chan string, 1), make(chan struct{})
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpSync {
			return zkserver.Pass
		}
		select {
		case asked <- r.Path:
		default: // the client asks again after a reconnect
		}
		return zkserver.HoldUntil(answer)
	})
	defer remove()
	require.NoError(t, server.Restart())
	require.Eventually(t, func() bool { return len(asked) > 0 || p.Age() == 0 }, limit, time.Millisecond)
	require.NotZero(t, p.Age(), "until the server, which may be behind, has answered a sync")
	require.Equal(t, "/services/orders", <-asked)
	close(answer)
	awaitFresh(t, p)
}

// slowSerializer reads nothing before it is told.
type slowSerializer struct {
	discovery.JSONSerializer[string]

	reads chan<- struct{}
	goOn  <-chan struct{}
}

func (s slowSerializer) Deserialize(data []byte) (discovery.ServiceInstance[string], error) {
	s.reads <- struct{}{}
	<-s.goOn
	return s.JSONSerializer.Deserialize(data)
}

// A cache that is still busy with its first picture when the connection is lost does not take it for the
// newest one, whether it was started with a connection or got one then. It catches up even if there is a
// connection again before the picture is full.
func TestDiscoveryOutageDuringTheFirstPictureCounts(t *testing.T) {
	for _, test := range []struct{ connected, back bool }{{true, false}, {false, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				register(t, newServices(t, zktest.Client(t, server)), newInstance("a"))
				client := zktest.Client(t, server)
				cut := func() (allow func()) {
					allow = server.Refuse()
					server.Cut(client.Session().ID(), 1)
					time.Sleep(time.Second)
					require.Equal(t, framework.Suspended, client.State())
					return allow
				}
				allow := func() {}
				if !test.connected {
					allow = cut()
				}
				reads, goOn := make(chan struct{}, 10), make(chan struct{})
				d := must.Get(discovery.NewServiceDiscovery(client, "/services", discovery.Serializer[string](slowSerializer{reads: reads, goOn: goOn})))(t)
				c := must.Get(d.NewCache("orders"))(t)
				defer func() { require.NoError(t, c.Close()) }()
				require.NoError(t, c.Start())
				started := make(chan error, 1)
				go func() { started <- c.Wait(t.Context()) }()
				synctest.Wait()
				allow()
				<-reads
				allow = cut()
				if test.back {
					allow()
					time.Sleep(time.Minute)
					require.Equal(t, framework.Reconnected, client.State())
				}
				require.NotZero(t, c.Age())

				catchUp := make(chan struct{})
				server.Intercept(zkserver.Nth(1, zkserver.OpSync, zkserver.HoldUntil(catchUp)))

				close(goOn)

				require.NoError(t, <-started)
				synctest.Wait()
				require.NotZero(t, c.Age())
				if !test.back {
					allow()
				}
				close(catchUp)
				time.Sleep(time.Minute)
				require.Zero(t, c.Age())
			})
		})
	}
}

// serve returns an instance that is a web server.
func serve(t *testing.T, id string, handler http.HandlerFunc) (instance, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	i := newInstance(id)
	i.Address = host
	number := must.Get(strconv.Atoi(port))(t)
	i.Port = &number
	return i, server
}

func TestDiscoveryHTTP(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	var calls atomic.Int64
	broken, _ := serve(t, "broken", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	good, _ := serve(t, "good", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Seen", r.Host)
	})
	gone, closed := serve(t, "gone", nil)
	closed.Close()
	for _, i := range []instance{broken, good, gone} {
		register(t, d, i)
	}
	p := newProvider(t, d, discovery.ProviderConfig[string]{Down: discovery.DownInstancePolicy{Threshold: 1000}})
	awaitIDs(t, p, "broken", "gone", "good")
	base := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: discovery.NewTransport(p, base)}

	for range 9 {
		response, err := client.Get("http://orders/open")
		require.NoError(t, err, "what is safe is sent elsewhere")
		require.NoError(t, response.Body.Close())
		require.Equal(t, "orders", response.Header.Get("Seen"))
	}
	require.Equal(t, int64(9), calls.Load())
	failed := 0
	for range 30 {
		response, err := client.Post("http://orders/new", "text/plain", strings.NewReader("order"))
		if err != nil {
			failed++
			continue
		}
		require.NoError(t, response.Body.Close())
	}
	require.NotZero(t, failed, "a POST that a server has seen is not repeated")
	require.Equal(t, int64(9+30-failed), calls.Load(), "one that no server has seen is")
	_, err := client.Get("http://invoices/")
	require.ErrorContains(t, err, `expected the service "orders"`)
}

// TestDiscoveryRegistrationWaitsForTheRemovalOfTheSameInstance holds up the deletion of
// an instance while it is registered again.
func TestDiscoveryRegistrationWaitsForTheRemovalOfTheSameInstance(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	d := newServices(t, client)
	a := register(t, d, newInstance("a"))
	deleting, mayGo := make(chan struct{}), make(chan struct{})
	deleted := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpDelete && r.SessionID == client.Session().ID() {
			close(deleting)
			<-mayGo
		}
		return zkserver.Pass
	})
	defer deleted()
	unregistered, registered := make(chan error, 1), make(chan error, 1)
	go func() { unregistered <- d.Unregister(a) }()
	zktest.Await(t, deleting, "the deletion")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := d.Register(ctx, a)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the old znode is still there")
	require.NotErrorIs(t, err, framework.ErrCleanupPending, "it has begun nothing that would need a removal")
	go func() { registered <- d.Register(zktest.Context(t), a) }()
	kept, err := d.Registered(a)
	require.False(t, kept)
	require.NoError(t, err)

	close(mayGo)

	require.NoError(t, zktest.Await(t, unregistered, "the end of Unregister"))
	require.NoError(t, zktest.Await(t, registered, "the end of Register"))
	require.Len(t, must.Get(newServices(t, other).Instances(zktest.Context(t), "orders"))(t), 1)
}

// An operator's znode at the path of an instance stays as it is, whatever becomes of the registration.
func TestDiscoveryRegistrationReplacesNothingOfAnotherKind(t *testing.T) {
	t.Parallel()
	for kind, mode := range map[discovery.ServiceType]framework.CreateMode{
		discovery.Dynamic: framework.Persistent, discovery.Static: framework.Ephemeral,
	} {
		t.Run(string(kind), func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				services, other := newServices(t, zktest.Client(t, server)), zktest.Client(t, server)
				at := "/services/orders/a"
				must.Get(other.Create(t.Context(), at, []byte("theirs"), framework.WithMode(mode), framework.CreatingParentsIfNeeded()))(t)
				a := newInstance("a")
				a.Type = kind
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()

				err := services.Register(ctx, a)

				require.ErrorIs(t, err, nodes.ErrTaken)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NoError(t, services.Unregister(a))
				require.Equal(t, "theirs", string(must.Get(other.Get(t.Context(), at))(t)))
			})
		})
	}
}

func TestDiscoveryFailedRegisterDoesNotWaitForItsRemoval(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	d := newServices(t, client)
	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := make(chan error, 1)
	go func() { failed <- d.Register(ctx, newInstance("a")) }()

	err := zktest.Await(t, failed, "the end of Register, without a server")

	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, framework.ErrCleanupPending)
	require.NoError(t, server.Restart())
	require.NoError(t, d.Close())
	require.Empty(t, must.Get(d.Instances(zktest.Context(t), "orders"))(t))
}

func TestCloseUnregistersAndLeavesNothing(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	client := zktest.Client(t, server)
	d := newServices(t, client)
	for _, id := range []string{"a", "b"} {
		register(t, d, newInstance(id))
	}
	require.NoError(t, d.Close())
	require.Empty(t, must.Get(d.Instances(zktest.Context(t), "orders"))(t))
	require.ErrorIs(t, d.Register(zktest.Context(t), newInstance("c")), discovery.ErrClosed)
}

func TestDiscoveryBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	d := newServices(t, client)
	for what, change := range map[string]func(*instance){
		"name": func(i *instance) { i.Name = "" }, "id": func(i *instance) { i.ID = "a/b" },
		"port": func(i *instance) { wrong := 65536; i.Port = &wrong }, "service type": func(i *instance) { i.Type = "" },
		`address "", expected one`: func(i *instance) { i.Address, i.URI, i.Payload = "", nil, nil },
	} {
		i := newInstance("a")
		change(&i)
		require.ErrorContains(t, d.Register(zktest.Context(t), i), what)
	}
	_, err := discovery.NewServiceDiscovery[string](nil, "/services", nil)
	require.ErrorContains(t, err, "client nil")
	_, err = d.NewProvider("a//b", discovery.ProviderConfig[string]{})
	require.ErrorContains(t, err, "a//b")
	provider := must.Get(d.NewProvider("a", discovery.ProviderConfig[string]{}))(t)
	_, err = provider.Instance()
	require.ErrorIs(t, err, discovery.ErrNotStarted)
	_, err = d.NewProvider("a", discovery.ProviderConfig[string]{Down: discovery.DownInstancePolicy{Threshold: -1}})
	require.ErrorContains(t, err, "no negative values")
	_, err = d.NewProvider("a", discovery.ProviderConfig[string]{Filters: make([]func(*instance) bool, 1)})
	require.ErrorContains(t, err, "filter 0 nil")
	_, err = d.NewProvider("a", discovery.ProviderConfig[string]{Strategy: (*panicking)(nil)})
	require.EqualError(t, err, "discovery: provider of a: invalid option: strategy is a nil *discovery_test.panicking")
	_, err = discovery.NewServiceDiscovery(zktest.Client(t, zktest.NewServer(t)), "/services", discovery.Serializer[string]((*discovery.JSONSerializer[string])(nil)))
	require.EqualError(t, err, "discovery: invalid option: serializer is a nil *discovery.JSONSerializer[string]")
}
