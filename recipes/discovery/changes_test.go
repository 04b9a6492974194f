// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// write writes an instance as another program does: its znode, and nothing that keeps it.
func write(tb testing.TB, client *framework.Framework, id string, port int) {
	tb.Helper()
	must.Get(client.Create(tb.Context(), "/services/orders/"+id, fmt.Appendf(nil, `{"name":"orders","id":%q,"address":"h","port":%d}`, id, port),
		framework.CreatingParentsIfNeeded(), framework.OrSetData()))(tb)
}

func remove(tb testing.TB, client *framework.Framework, id string) {
	tb.Helper()
	require.NoError(tb, client.Delete(tb.Context(), "/services/orders/"+id))
}

// inBubble runs a test on fake time with a server in memory and two clients.
func inBubble(t *testing.T, test func(t *testing.T, client, writer *framework.Framework)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		test(t, zktest.Client(t, server), zktest.Client(t, server))
	})
}

func TestChangesSlowListenerGetsTheNewestInstances(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		c := must.Get(newServices(t, client).NewCache("orders"))(t)
		defer func() { require.NoError(t, c.Close()) }()
		lists, goOn := make(chan []*instance, 100), make(chan struct{})
		listener := c.OnChange(func(all []*instance) {
			lists <- all
			<-goOn
		})
		defer listener.Remove()
		require.NoError(t, c.Start())
		require.NoError(t, c.Wait(t.Context()))
		require.Empty(t, <-lists, "the first picture")
		for n := range 50 {
			write(t, writer, fmt.Sprintf("%02d", n), 1)
			synctest.Wait()
		}
		require.Len(t, c.Instances(), 50, "a look-up does not wait for the listener")
		require.Zero(t, c.Age())

		close(goOn)

		require.Len(t, <-lists, 50)
		synctest.Wait()
		require.Empty(t, lists, "no list in between is told")
		write(t, writer, "00", 1)
		synctest.Wait()
		require.Empty(t, lists, "the same data is no change")
	})
}

// A program that is slow to read instances reads the newest of each, and Age counts what it has not read.
func TestAgeCountsWhatIsNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		reads, goOn := make(chan struct{}, 1000), make(chan struct{}, 1000)
		d := must.Get(discovery.NewServiceDiscovery(client, "/services", discovery.Serializer[string](slowSerializer{reads: reads, goOn: goOn})))(t)
		p := must.Get(d.NewProvider("orders", discovery.ProviderConfig[string]{}))(t)
		defer func() { require.NoError(t, p.Close()) }()
		require.NoError(t, p.Start())
		require.NoError(t, p.Wait(t.Context()))
		require.Zero(t, p.Age())
		write(t, writer, "a", 1)
		<-reads
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute, p.Age())
		for port := range 100 {
			write(t, writer, "a", port)
			write(t, writer, "gone", port)
			remove(t, writer, "gone")
		}
		synctest.Wait()

		goOn <- struct{}{}
		<-reads

		synctest.Wait()
		require.Empty(t, reads)
		require.Equal(t, 1, *p.Instances()[0].Port)
		time.Sleep(time.Second)
		require.Equal(t, time.Second, p.Age())
		goOn <- struct{}{}
		synctest.Wait()
		require.Zero(t, p.Age())
		require.Empty(t, reads, "only the newest data was read")
		require.Len(t, p.Instances(), 1)
		require.Equal(t, 99, *p.Instances()[0].Port)
	})
}

// Age also counts what the cache below has heard of, and has not read yet.
func TestAgeCountsWhatWasHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		reads, goOn := make(chan struct{}, 1000), make(chan struct{}, 1000)
		d := must.Get(discovery.NewServiceDiscovery(client, "/services", discovery.Serializer[string](slowSerializer{reads: reads, goOn: goOn})))(t)
		p := must.Get(d.NewProvider("orders", discovery.ProviderConfig[string]{}))(t)
		defer func() { require.NoError(t, p.Close()) }()
		require.NoError(t, p.Start())
		require.NoError(t, p.Wait(t.Context()))
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == client.Session().ID() && r.Op == zkserver.OpGetData {
				return zkserver.Delay(2 * time.Second)
			}
			return zkserver.Pass
		})
		write(t, writer, "a", 1)
		time.Sleep(time.Second)
		require.Equal(t, time.Second, p.Age(), "its znode is being read")
		<-reads
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute+2*time.Second, p.Age(), "its data is being read")
		goOn <- struct{}{}
		synctest.Wait()
		require.Zero(t, p.Age())
		require.Len(t, p.Instances(), 1)
	})
}

// countingSerializer counts what it reads.
type countingSerializer struct {
	discovery.JSONSerializer[string]

	reads *atomic.Int64
}

func (s countingSerializer) Deserialize(data []byte) (discovery.ServiceInstance[string], error) {
	s.reads.Add(1)
	return s.JSONSerializer.Deserialize(data)
}

func TestChangesBurstCostsWhatHasChanged(t *testing.T) {
	const n = 500
	client, writer := clients(t)
	var reads, filtered, told atomic.Int64
	d := must.Get(discovery.NewServiceDiscovery(client, "/services", discovery.Serializer[string](countingSerializer{reads: &reads})))(t)
	replace(t, writer, n, 0)
	p := newProvider(t, d, discovery.ProviderConfig[string]{Filters: []func(*instance) bool{func(*instance) bool {
		filtered.Add(1)
		return true
	}}})
	c := must.Get(d.NewCache("orders"))(t)
	defer func() { require.NoError(t, c.Close()) }()
	released := make(chan struct{})
	done := make(chan struct{})
	c.OnChange(func(all []*instance) {
		<-released
		if told.Add(1); len(all) == n && all[0].ID[0] == '1' {
			close(done)
		}
	})
	require.NoError(t, c.Start())
	require.NoError(t, c.Wait(zktest.Context(t)))
	require.Equal(t, int64(2*n), reads.Load(), "of a cache and a provider")

	replace(t, writer, n, 1)

	require.Eventually(t, func() bool { return isReplaced(p.Instances(), n) && isReplaced(c.Instances(), n) }, limit, time.Millisecond)
	close(released)
	zktest.Await(t, done, "the newest list")
	require.Equal(t, int64(4*n), reads.Load())
	require.Equal(t, int64(2*n), filtered.Load())
	// A list that Instances returns is queued for the listener a moment later, so an earlier one may still be there.
	require.LessOrEqual(t, told.Load(), int64(3), "the first list, the one in the queue and the newest")
}

// TestChangesOneBadInstance registers an instance beside one on which code of the program panics.
func TestChangesOneBadInstance(t *testing.T) {
	panicky := func(i *instance) bool { return *i.Payload != "" }
	exiting := func(i *instance) bool {
		if i.Payload == nil {
			runtime.Goexit()
		}
		return true
	}
	for name, test := range map[string]struct {
		serializer discovery.Serializer[string]
		filters    []func(*instance) bool
		reason     string
	}{
		"a filter that exits":      {discovery.JSONSerializer[string]{}, []func(*instance) bool{exiting}, "runtime.Goexit was called"},
		"a filter that panics":     {discovery.JSONSerializer[string]{}, []func(*instance) bool{panicky}, "nil pointer dereference"},
		"a serializer that panics": {badSerializer{panics: true}, nil, "no payload"},
		"a serializer that fails":  {badSerializer{}, nil, "no payload"},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			reader, server := metric.NewManualReader(), zktest.NewServer(t)
			client := zktest.Client(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
				framework.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
			good := newServices(t, client)
			d := must.Get(discovery.NewServiceDiscovery(client, "/services", test.serializer))(t)
			payload := "x"
			register := func(id string) instance {
				i := newInstance(id)
				i.Payload = &payload
				return register(t, good, i)
			}
			first := register("a")
			write(t, client, "bad", 1)
			p := newProvider(t, d, discovery.ProviderConfig[string]{Filters: test.filters})
			another := must.Get(d.NewCache("orders", test.filters...))(t)
			require.NoError(t, another.Start())
			require.NoError(t, another.Wait(zktest.Context(t)))
			require.NoError(t, another.Close())
			awaitIDs(t, p, "a")

			register("c")
			require.NoError(t, good.Unregister(first))

			awaitIDs(t, p, "c")
			awaitFresh(t, p)
			told := func() []string { return log.about("curator.path=/services/orders/bad") }
			require.Eventually(t, func() bool { return len(told()) > 0 }, limit, time.Millisecond)
			require.Contains(t, told()[0], test.reason)
			values, _ := measured(t, reader)
			require.InDelta(t, 2, values["curator.discovery.left_out"], 0)
			write(t, client, "bad", 2)
			require.Eventually(t, func() bool {
				values, _ := measured(t, reader)
				return values["curator.discovery.left_out"] == 3 && len(told()) > 1
			}, limit, time.Millisecond, "it is looked at again")
			data := must.Get(json.Marshal(map[string]any{"name": "orders", "id": "bad", "payload": payload}))(t)
			require.NoError(t, client.Set(zktest.Context(t), "/services/orders/bad", data))
			awaitIDs(t, p, "bad", "c")
			require.NoError(t, client.Close()) // which writes what is in the queue of the log
			require.Len(t, told(), 2, "once for each content, however many caches meet it")
		})
	}
}

// A query leaves out what cannot be read, as caches do.
func TestChangesQueryLeavesOutWhatCannotBeRead(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		writer := zktest.Client(t, server)
		write(t, writer, "a", 1)
		write(t, writer, "c", 1)
		for id, opts := range map[string][]framework.CreateOption{
			"b": {framework.WithACL(framework.ACL{Perms: 1 << 2, Scheme: "world", ID: "anyone"})}, "d": nil, "e": nil,
		} {
			must.Get(writer.Create(t.Context(), "/services/orders/"+id, make([]byte, 10<<10), opts...))(t)
		}
		d := newServices(t, zktest.Client(t, server, framework.WithMaxReplySize(5<<10)))

		found, err := d.Instances(t.Context(), "orders")

		require.NoError(t, err)
		require.Len(t, found, 2)
		require.Equal(t, "c", found[1].ID)
	})
}

// badSerializer cannot read an instance without a payload, and cannot write one with the id "unwritable".
type badSerializer struct {
	discovery.JSONSerializer[string]

	panics bool
}

func (s badSerializer) Deserialize(data []byte) (discovery.ServiceInstance[string], error) {
	i, err := s.JSONSerializer.Deserialize(data)
	if err == nil && i.Payload == nil {
		if s.panics {
			panic("no payload")
		}
		err = errors.New("no payload")
	}
	return i, err
}

func (s badSerializer) Serialize(i instance) ([]byte, error) {
	if i.ID == "unwritable" {
		panic("unwritable")
	}
	return s.JSONSerializer.Serialize(i)
}

func TestChangesSerializerThatPanicsFailsTheCall(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	d := must.Get(discovery.NewServiceDiscovery(client, "/services", discovery.Serializer[string](badSerializer{panics: true})))(t)
	write(t, client, "bad", 1)
	require.ErrorContains(t, d.Register(zktest.Context(t), newInstance("unwritable")), "panicked: unwritable")
	_, _, err := d.Instance(zktest.Context(t), "orders", "bad")
	require.ErrorContains(t, err, "panicked: no payload")
	require.Empty(t, must.Get(d.Instances(zktest.Context(t), "orders"))(t))
}

func TestChangesListenerThatPanicsIsToldInTheClientsLog(t *testing.T) {
	var log lines
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	c := must.Get(newServices(t, client).NewCache("orders"))(t)
	defer func() { require.NoError(t, c.Close()) }()
	called := make(chan int, 10)
	c.OnChange(func(all []*instance) {
		called <- len(all)
		if len(all) == 0 {
			panic("no instances")
		}
	})
	require.NoError(t, c.Start())
	require.NoError(t, c.Wait(zktest.Context(t)))
	require.Zero(t, zktest.Await(t, called, "the first call"))
	write(t, client, "a", 1)
	require.Equal(t, 1, zktest.Await(t, called, "the next call"))
	require.Eventually(t, func() bool { return len(log.about("no instances")) == 1 }, limit, time.Millisecond)
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

// about returns the lines that contain a text.
func (l *lines) about(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func TestChangesWhatIsClosedSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		d := newServices(t, client)
		write(t, writer, "a", 1)
		p := newProvider(t, d, discovery.ProviderConfig[string]{})
		c, err := d.NewCache("orders")
		require.NoError(t, err)
		require.NoError(t, c.Start())
		require.NoError(t, c.Wait(t.Context()))
		require.Len(t, p.Instances(), 1)
		require.Len(t, c.Instances(), 1)

		require.NoError(t, p.Close())
		require.NoError(t, c.Close())

		time.Sleep(time.Minute)
		for range 2 {
			_, err = p.Instance()
			require.ErrorIs(t, err, discovery.ErrClosed)
			require.Empty(t, p.Instances())
			require.Empty(t, c.Instances())
			require.Equal(t, time.Minute, p.Age())
			require.Equal(t, time.Minute, c.Age())
			require.ErrorIs(t, c.Wait(context.Background()), discovery.ErrClosed)
			require.ErrorIs(t, c.Start(), discovery.ErrClosed)
			require.NoError(t, p.Close())
			require.NoError(t, c.Close())
		}
		left := newProvider(t, d, discovery.ProviderConfig[string]{})
		require.Zero(t, left.Age())
		require.NoError(t, client.Close())
		time.Sleep(time.Minute)
		require.Equal(t, time.Minute, left.Age(), "its client is closed")
		_, err = discovery.NewTransport(p, nil).RoundTrip(newRequest(t, "http://orders/")) //nolint:bodyclose // there is no response
		require.ErrorIs(t, err, discovery.ErrClosed)
	})
}

// What a caller does to a list it was given changes nothing for others.
func TestChangesListsAreTheCallers(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	d := newServices(t, client)
	register(t, d, newInstance("a"))
	register(t, d, newInstance("b"))
	p := newProvider(t, d, discovery.ProviderConfig[string]{})
	c := must.Get(d.NewCache("orders"))(t)
	defer func() { require.NoError(t, c.Close()) }()
	lists := make(chan []*instance, 10)
	for range 2 {
		c.OnChange(func(all []*instance) {
			told := append([]*instance(nil), all...)
			clear(all)
			lists <- told
		})
	}
	require.NoError(t, c.Start())
	require.NoError(t, c.Wait(zktest.Context(t)))
	clear(c.Instances())
	clear(p.Instances())
	for range 2 {
		require.Equal(t, []string{"a", "b"}, ids(zktest.Await(t, lists, "a list")))
	}
	require.Equal(t, []string{"a", "b"}, ids(c.Instances()))
	require.Equal(t, []string{"a", "b"}, ids(p.Instances()))
}

func TestCacheDropsTheEmptyListBeforeWaitReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		write(t, writer, "a", 1)
		c := must.Get(newServices(t, client).NewCache("orders"))(t)
		require.Empty(t, c.Instances())
		filled := make(chan bool, 1)
		c.OnFilled(func(dropped bool) { filled <- dropped })
		require.NoError(t, c.Start())
		require.NoError(t, c.Wait(t.Context()))
		require.True(t, <-filled)
		require.Len(t, c.Instances(), 1)
		require.NoError(t, c.Close())
	})
}
